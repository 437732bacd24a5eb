/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line by a table: `PROGRAM [OPTION]... NOUN [VERB] [ARGUMENT]...`. Options stand
 * anywhere, as "--name value", "--name=value", "-n value" and "-nvalue"; a long name may be cut
 * where that leaves it the only one. "--" ends them. A noun alone is its command `ls`; its singular
 * works. Threads: any. Memory: amb_cli_fini frees the lists; the texts are argv's.
 */
#pragma once

#include "tools/cli/cli.h"
#include "tools/cli/value.h"
#include "wire/base/status.h"

#define AMB_CLI_ERROR_MAX 512u

struct amb_cli_given {
    const struct amb_cli_option *option;
    bool is_letter; /* was it given by its letter? */
    struct amb_cli_value value;
};

struct amb_cli_line {
    const struct amb_cli_program *program;
    const struct amb_cli_command *command; /* NULL: none was named */
    char called[AMB_CLI_NAME_MAX];         /* as it was named: "kick" of "clients kick" */
    struct amb_cli_given *given;           /* in their order */
    size_t given_count;
    char **args; /* NULL behind the last one */
    size_t arg_count;
    bool wants_help, wants_version;
};

/* argv as main has it. EINVAL: error has "what: why". ENOMEM the same. After AMB_OK, and only
 * then, the line is the caller's to amb_cli_fini. A line that wants help or the version may be
 * incomplete otherwise. */
AMB_MUST_CHECK enum amb_status amb_cli_parse(const struct amb_cli_program *program, int argc,
                                             char **argv, struct amb_cli_line *out, char *error,
                                             size_t error_size);
void amb_cli_fini(struct amb_cli_line *line);

/* ---- a parsed line; names are those of the table, an assertion checks them ---- */

/* How often an option was given. */
size_t amb_cli_times(const struct amb_cli_line *line, const char *name);
bool amb_cli_has(const struct amb_cli_line *line, const char *name);
/* The last value; NULL: not given. */
const struct amb_cli_value *amb_cli_value_of(const struct amb_cli_line *line, const char *name);
/* The text of the last value, else NULL; its number and so on, else `otherwise`. */
const char *amb_cli_text(const struct amb_cli_line *line, const char *name);
uint64_t amb_cli_number(const struct amb_cli_line *line, const char *name, uint64_t otherwise);
int64_t amb_cli_ns(const struct amb_cli_line *line, const char *name, int64_t otherwise);
double amb_cli_rate(const struct amb_cli_line *line, const char *name, double otherwise);
int64_t amb_cli_word(const struct amb_cli_line *line, const char *name, int64_t otherwise);
/* Each text of an option that may be repeated: *at is 0 at first. NULL behind the last one. */
const char *amb_cli_next(const struct amb_cli_line *line, const char *name, size_t *at);
