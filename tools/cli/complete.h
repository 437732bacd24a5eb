/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion: the words that may stand where the cursor is, one a line, each with a tab and its
 * help. A line AMB_CLI_FILES or AMB_CLI_FOLDERS leaves the rest to the shell. Threads: any. Memory:
 * freed before return.
 */
#pragma once

#include "tools/cli/parse.h"

#include <stdio.h>

/* No name has such a character: those that have are left out. */
#define AMB_CLI_FILES "\001files"
#define AMB_CLI_FOLDERS "\001folders"
#define AMB_CLI_COMPLETE "__complete" /* the word that makes a program complete */

struct amb_cli_candidates {
    const char *start; /* of the word under the cursor: others are left out */
    const char *lead;  /* stands before each: "--policy=" */
    FILE *out;
};

void amb_cli_candidate(struct amb_cli_candidates *to, const char *text, const char *help);

/* Adds the names of a kind, which only a broker knows; `line` is so far as it has come. */
typedef void (*amb_cli_live_fn)(enum amb_cli_live kind, const struct amb_cli_line *line,
                                struct amb_cli_candidates *to);

/* words: those behind the program's name, the last one the one under the cursor. live may be NULL.
 * Names of a broker come last, after everything else has been flushed. */
void amb_cli_complete(const struct amb_cli_program *program, int count, char **words,
                      amb_cli_live_fn live, FILE *out);
