/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a program as a table: its commands, their arguments and options. The parser,
 * help, pages, man pages and completion all come from the table.
 *   program ─► commands ─► arguments, options ─► words
 *      └─► options of all commands
 * A table is constant data. A row whose name is missing ends each list.
 * Threads: any. Memory: constants.
 */
#pragma once

#include "wire/config/config_key.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_CLI_NAME_MAX 64u /* bytes of a command with its verb, of an option */
#define AMB_CLI_MANY UINT32_MAX

enum amb_cli_type {
    AMB_CLI_FLAG,    /* takes no value */
    AMB_CLI_TEXT,    /* min to max bytes, or of a form that `fault` knows */
    AMB_CLI_COUNT,   /* a whole number */
    AMB_CLI_SIZE,    /* bytes, as 64k */
    AMB_CLI_TIME,    /* nanoseconds, as 500ms */
    AMB_CLI_RATE,    /* a number above 0, maybe with a fraction */
    AMB_CLI_WORD,    /* one of `words` */
    AMB_CLI_FILE,    /* a path of a file */
    AMB_CLI_FOLDER,  /* a path of a folder */
    AMB_CLI_PATTERN, /* of topics */
};

/* Names that only a broker knows, for completion. */
enum amb_cli_live {
    AMB_CLI_LIVE_NONE,
    AMB_CLI_LIVE_TOPICS,
    AMB_CLI_LIVE_SUBSCRIPTIONS, /* their patterns */
    AMB_CLI_LIVE_DURABLES,
    AMB_CLI_LIVE_CLIENTS,
    AMB_CLI_LIVE_CONTEXTS,
    AMB_CLI_LIVE_COMMANDS, /* of this program */
};

struct amb_cli_option {
    const char *name; /* "count" is --count; NULL: a letter alone */
    char letter;      /* 'c' is -c; 0: none */
    enum amb_cli_type type;
    const char *value;                   /* the name of its value, "N" */
    const char *unit;                    /* of a number, "messages" */
    uint64_t min, max;                   /* of numbers and bytes of texts; max 0: no end */
    uint32_t most;                       /* how often; 0: again and again, the last one holds */
    const struct amb_config_word *words; /* of a WORD */
    /* The form of a TEXT: what it takes, where `text` is not such a one; else NULL. */
    const char *(*fault)(const char *text);
    const char *right, *wrong; /* of a form: a value, and one that is none */
    const char *excludes;      /* names of options that do not go with it: "size,url" */
    const char *needs;         /* an option that it does not go without */
    const char *former;        /* another name, which is shown nowhere */
    const char *default_text;
    const char *help;
    const char *see;     /* of docs/: a link, "acks.md#filters" */
    const char *heading; /* stands above it and those behind it */
    enum amb_cli_live live;
};

struct amb_cli_arg {
    const char *name; /* "TOPIC" */
    bool is_optional;
    bool is_many;                        /* one or more; the last row */
    const struct amb_config_word *words; /* NULL: any text */
    enum amb_cli_type type;              /* TEXT, FILE, PATTERN, WORD */
    enum amb_cli_live live;
    const char *help;
};

struct amb_cli_command {
    const char *name;           /* "topics ls", "pub" */
    const char *const *aliases; /* other names, "topics"; NULL ends them, or there are none */
    const char *heading;        /* in --help, above it and those behind it */
    const struct amb_cli_arg *args;
    const struct amb_cli_option *options;
    bool stops;          /* the first argument, and all behind it, are not looked at */
    const char *refuses; /* options of the program that do not go with it: "url" */
    const char *why;     /* it refuses them */
    const char *help;    /* one sentence */
    const char *more;    /* further ones, or NULL */
    const char *example; /* a command line, or NULL */
};

/* A word of another program's users, and the sentence that helps them. */
struct amb_cli_habit {
    const char *word, *hint;
};

struct amb_cli_exit {
    unsigned code;
    const char *help;
};

struct amb_cli_variable {
    const char *name, *help;
};

struct amb_cli_program {
    const char *name;
    unsigned section; /* of its man page */
    const char *help; /* in a few words: for "NAME - help" */
    const char *more;
    const char *usage;                      /* of a program without commands: its synopsis */
    const struct amb_cli_command *commands; /* NULL: it has none, and takes no arguments */
    const struct amb_cli_option *options;
    const struct amb_cli_habit *habits;
    const struct amb_cli_exit *exits;
    const struct amb_cli_variable *variables; /* of the environment */
    const char *see_also;                     /* "brokerd 8, broker.conf 5" */
};

/* ---- questions to a table ---- */

static inline bool amb_cli_is_option(const struct amb_cli_option *option)
{
    return option->name != NULL || option->letter != 0;
}

/* "--count", or "-n"; out has AMB_CLI_NAME_MAX bytes. Returns out. */
const char *amb_cli_option_shown(const struct amb_cli_option *option, char *out);
/* The row of a name as "count", or of a letter as "n"; NULL: none. */
const struct amb_cli_option *amb_cli_option_named(const struct amb_cli_option *options,
                                                  const char *name);
/* The same among the command's (which may be NULL), else the program's. */
const struct amb_cli_option *amb_cli_option_find(const struct amb_cli_program *program,
                                                 const struct amb_cli_command *command,
                                                 const char *name);
/* Does the list have the name, as "size,url"? NULL has none. */
bool amb_cli_list_has(const char *list, const char *name);
/* Is the option, one of the program's, taken by the command? NULL refuses none. */
bool amb_cli_takes(const struct amb_cli_command *command, const struct amb_cli_option *option);
/* The command of this very name or alias; NULL: none. */
const struct amb_cli_command *amb_cli_command_named(const struct amb_cli_program *program,
                                                    const char *name);
/* "a number of messages, 1 to 256": the values that an option takes. Returns out. */
const char *amb_cli_allowed(const struct amb_cli_option *option, char *out, size_t size);
/* "NAME [USER]", its arguments. */
const char *amb_cli_args_shown(const struct amb_cli_command *command, char *out, size_t size);
