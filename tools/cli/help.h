/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help of a program and of a command, from its table, in 80 columns.
 * Threads: any. Memory: none.
 */
#pragma once

#include "tools/cli/parse.h"

#include <stdio.h>

#define AMB_CLI_BODY_MAX 1024u

/* Of a program without commands: all of it. Otherwise its commands in a line each. */
void amb_cli_help_program(const struct amb_cli_program *program, FILE *out);
void amb_cli_help_command(const struct amb_cli_program *program,
                          const struct amb_cli_command *command, FILE *out);
/* Each command of a noun in a line. */
void amb_cli_help_noun(const struct amb_cli_program *program, const char *noun, FILE *out);
/* Of a line that wants help: one of these, by the command as far as it was named. */
void amb_cli_help_line(const struct amb_cli_line *line, FILE *out);

/* ---- parts that pages share ---- */

/* "topics" of "topics ls", else its name. Returns out, of AMB_CLI_NAME_MAX bytes. */
const char *amb_cli_plain_name(const struct amb_cli_command *command, char *out);
/* The option's sentence with its words and its default; AMB_CLI_BODY_MAX bytes. Returns out. */
const char *amb_cli_option_body(const struct amb_cli_option *option, char *out);
/* "broker-ctl [OPTION]... pub TOPIC": what is typed. Returns out. */
const char *amb_cli_synopsis(const struct amb_cli_program *program,
                             const struct amb_cli_command *command, char *out, size_t size);
