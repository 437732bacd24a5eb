/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of a Markdown page. The page is written by hand but for the lines between two marks:
 *   <!-- cli: broker-ctl pub -->      options of a command
 *   <!-- cli: broker-ctl -->          options of all commands
 *   <!-- cli: broker-ctl commands --> commands, one a row
 *   <!-- cli: broker-ctl exits -->    exit codes
 *   <!-- cli: end -->
 * Threads: any. Memory: none.
 */
#pragma once

#include "tools/cli/cli.h"

#include <stdbool.h>
#include <stdio.h>

#define AMB_CLI_MARK "<!-- cli: "

/* The programs that a page may name; NULL ends them. */
typedef const struct amb_cli_program *const *amb_cli_programs;

/* NULL: there is none of that name. */
const struct amb_cli_program *amb_cli_program_named(amb_cli_programs programs, const char *name);
/* Copies the page and makes each table anew. False: a mark names nothing, which is in `why`. */
bool amb_cli_page_print(amb_cli_programs programs, FILE *page, FILE *out, char *why, size_t size);
