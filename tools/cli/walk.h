/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line, word by word: for the parser all of them, for completion those before the cursor.
 * Values are texts here. Whether all is there and fits is not looked at.
 * Threads: any. Memory: the lists of the line, which amb_cli_fini frees.
 */
#pragma once

#include "tools/cli/parse.h"

struct amb_cli_walk {
    struct amb_cli_line *line;
    char noun[AMB_CLI_NAME_MAX];          /* as the table has it; empty: none came */
    const struct amb_cli_option *pending; /* its value is the next word */
    bool is_letter;                       /* it was given by its letter */
    bool has_ended;                       /* all further words are arguments */
    char *error;                          /* of AMB_CLI_ERROR_MAX bytes */
};

/* line: zero but for its program. count: at most so many words will come. ENOMEM. */
AMB_MUST_CHECK enum amb_status
amb_cli_walk_begin(struct amb_cli_walk *walk, struct amb_cli_line *line, size_t count, char *error);
/* EINVAL: error has "what: why". The walk may go on, as if the word had not come. */
AMB_MUST_CHECK enum amb_status amb_cli_walk_word(struct amb_cli_walk *walk, char *word);

/* A fault into walk->error: the command's name, `what`, a colon and the reason. Always EINVAL. */
enum amb_status amb_cli_walk_fail(struct amb_cli_walk *walk, const char *what, const char *format,
                                  ...) __attribute__((format(printf, 3, 4)));
/* A word that is no verb of the noun; "": there is none. Always EINVAL. */
enum amb_status amb_cli_refuse_verb(struct amb_cli_walk *walk, const char *word);
/* "--count", or "-c" as it was given; out has AMB_CLI_NAME_MAX bytes. Returns out. */
const char *amb_cli_given_shown(const struct amb_cli_option *option, bool is_letter, char *out);
/* The command as far as it has come: of a noun without its verb the one that the noun alone is.
 * NULL: none. */
const struct amb_cli_command *amb_cli_walk_command(const struct amb_cli_walk *walk);
/* Does the noun have verbs, and so commands of two words? */
bool amb_cli_noun_has_verbs(const struct amb_cli_program *program, const char *noun);
/* The first word of a command's name or alias, in AMB_CLI_NAME_MAX bytes; the second one, or "". */
void amb_cli_name_split(const char *name, char *noun, const char **verb);

/* Each name and alias of a program's commands in turn; zero but for the program at first. */
struct amb_cli_names {
    const struct amb_cli_program *program;
    const struct amb_cli_command *command;
    size_t at; /* 1: the command's name, then its aliases */
    const char *name;
    char noun[AMB_CLI_NAME_MAX]; /* its first word */
    const char *verb;            /* the second one, or "" */
};

/* False behind the last one. */
bool amb_cli_names_next(struct amb_cli_names *names);
