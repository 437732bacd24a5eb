/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands: questions of broker-ctl that change something, by their words. All other questions are
 * views.
 *
 *   kick CLIENT [-- TEXT]    kick --user NAME [-- TEXT]    block USER    unblock USER
 *   durable rm NAME [USER]   queue redeliver NAME [USER]   reload        drain
 *   topic rm NAME [TENANT]   topic purge NAME [TENANT]
 *
 * Threads: any. Memory: fixed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
};

#define AMB_COMMAND_WORD_MAX 255u
#define AMB_COMMAND_TEXT_MAX 150u

struct amb_command {
    enum amb_command_kind kind;
    char word[AMB_COMMAND_WORD_MAX + 1];   /* a client, a user, a durable name, a topic; "": none */
    char second[AMB_COMMAND_WORD_MAX + 1]; /* the user of a durable name, a tenant; "": none */
    char text[AMB_COMMAND_TEXT_MAX + 1];   /* for the client that is kicked; "": none */
};

/* False: it is a command, and its words are wrong. *why: static. A view is no error. */
bool amb_command_parse(const char *query, struct amb_command *out, const char **why);
/* Its words, in their one spelling. False: a view, or `size` is too small. */
bool amb_command_format(const struct amb_command *command, char *out, size_t size);
/* Does it concern all tenants? */
bool amb_command_is_of_all(const struct amb_command *command);
