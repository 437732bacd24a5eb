/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokerd's command line, by its table in tools/cli.
 * Threads: start-up only. Memory: the lists are heap, their texts are argv's or the environment's.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define AMB_COMMAND_LINE_CONFIG_DEFAULT "/etc/ambroker/broker.conf"

enum amb_command_line_action {
    AMB_COMMAND_LINE_RUN,
    AMB_COMMAND_LINE_TEST_CONFIG,
    AMB_COMMAND_LINE_PRINT_CONFIG,
    AMB_COMMAND_LINE_DOCTOR,
    AMB_COMMAND_LINE_VERSION,
    AMB_COMMAND_LINE_HELP,
};

struct amb_command_line {
    enum amb_command_line_action action;
    const char *config; /* else $AMB_CONFIG, which has programs' settings too; NULL: none (--dev) */
    bool dev;
    int output;                      /* enum amb_cli_form, of the doctor */
    bool until_eof;                  /* ends with standard input */
    const char **listen, **settings; /* --listen URL, -o key=value */
    size_t listen_count, setting_count;
};

/* EINVAL: error has "what: why"; the caller ends with 64. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_command_line_init(struct amb_command_line *line, int argc,
                                                     char **argv, char *error, size_t error_size);
void amb_command_line_fini(struct amb_command_line *line);
void amb_command_line_help(FILE *out);
/* Is it a question of a shell, "__complete WORD..."? Then it has been answered. */
bool amb_command_line_complete(int argc, char **argv, FILE *out);
