/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands: questions of broker-ctl that change something, by their words. All other questions are
 * views.
 *
 *   kick CLIENT [-- TEXT]    kick --user NAME [-- TEXT]    block USER    unblock USER
 *   durable rm NAME [USER]   queue redeliver NAME [USER]   reload        drain
 *   topic rm NAME [TENANT]   topic purge NAME [TENANT]
 *   drain TIME               trace PATTERN N TIME
 *   config reload            config show                   config defaults
 *   config diff PATH         config test PATH              config set KEY=VALUE
 *
 * Threads: any. Memory: fixed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum amb_command_kind {
    AMB_COMMAND_NONE, /* a view */
    AMB_COMMAND_KICK,
    AMB_COMMAND_KICK_USER,
    AMB_COMMAND_BLOCK,
    AMB_COMMAND_UNBLOCK,
    AMB_COMMAND_DURABLE_RM,
    AMB_COMMAND_REDELIVER,
    AMB_COMMAND_TOPIC_RM,
    AMB_COMMAND_TOPIC_PURGE,
    AMB_COMMAND_RELOAD,
    AMB_COMMAND_DRAIN,
    AMB_COMMAND_TRACE,
    AMB_COMMAND_CONFIG_SHOW,
    AMB_COMMAND_CONFIG_DEFAULTS,
    AMB_COMMAND_CONFIG_DIFF,
    AMB_COMMAND_CONFIG_TEST,
    AMB_COMMAND_CONFIG_SET,
};

#define AMB_COMMAND_WORD_MAX 255u
#define AMB_COMMAND_TEXT_MAX 150u
#define AMB_COMMAND_NO_LIMIT INT64_C(-1)
#define AMB_COMMAND_LIMIT_MAX_NS (INT64_C(24) * 3600 * 1000000000)
#define AMB_COMMAND_REST_MAX 1008u /* a query has at most 1023 */
#define AMB_COMMAND_NUMBER_MAX 31u

struct amb_command {
    enum amb_command_kind kind;
    char word[AMB_COMMAND_WORD_MAX + 1];   /* a client, a user, a durable name, a topic; "": none */
    char second[AMB_COMMAND_WORD_MAX + 1]; /* the user of a durable name, a tenant; "": none */
    char third[AMB_COMMAND_NUMBER_MAX + 1]; /* a time; "": none */
    char text[AMB_COMMAND_TEXT_MAX + 1];    /* for the client that is kicked; "": none */
    char rest[AMB_COMMAND_REST_MAX + 1];    /* a path, or KEY=VALUE; "": none */
    bool wants_rows;                        /* of `config`: its answer has them */
    int64_t limit_ns; /* of a drain; AMB_COMMAND_NO_LIMIT: that of the configuration */
};

/* False: it is a command, and its words are wrong. *why: static. A view is no error. */
bool amb_command_parse(const char *query, struct amb_command *out, const char **why);
/* Its words, in their one spelling, without a secret, or a value of a key that there is not. False:
 * a view, or `size` is too small. */
bool amb_command_format(const struct amb_command *command, char *out, size_t size);
/* Is it a question about the configuration, or does it change that? */
bool amb_command_is_of_config(const struct amb_command *command);
/* Does it say who may do what, who shares memory with whom, or what is recorded of it? */
bool amb_command_is_of_trust(const struct amb_command *command);
/* Does it concern all tenants? */
bool amb_command_is_of_all(const struct amb_command *command);
