/* SPDX-License-Identifier: Apache-2.0 */
/* A broker that is texts: what it answers to the questions of top. Threads: one. */
#pragma once

#include "tools/ctl/top/sample.h"

#include <stdio.h>
#include <string.h>

struct answers {
    const char *status, *workers, *view, *also; /* JSON; NULL: refused */
    const char *note;                           /* NULL: none */
    enum amb_status fails;                      /* all of it */
    char asked[256];                            /* the queries, by semicolons */
};

static inline enum amb_status answers_ask(void *arg, const char *const *queries, size_t count,
                                          json_t **out, char note[AMB_TOP_NOTE_MAX])
{
    struct answers *answers = arg;
    const char *const texts[] = {answers->status, answers->workers, answers->view, answers->also,
                                 NULL};
    answers->asked[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(answers->asked);
        (void)snprintf(answers->asked + used, sizeof(answers->asked) - used, "%s;", queries[i]);
    }
    (void)snprintf(note, AMB_TOP_NOTE_MAX, "%s", answers->note == NULL ? "" : answers->note);
    if (answers->fails != AMB_OK) {
        return answers->fails;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = texts[i] == NULL ? NULL : json_loads(texts[i], 0, NULL);
    }
    return AMB_OK;
}

#define ANSWERS_STATUS                                                                             \
    "{\"name\": \"hall\", \"version\": \"1.2\", \"pid\": 7, \"epoch\": \"e1\", \"uptime_s\": 75, " \
    "\"clients\": 3, \"clients_limit\": 10, \"topics\": 2, \"topics_limit\": 20, "                 \
    "\"subscriptions\": 1, \"subscriptions_limit\": 30, \"memory_used_bytes\": 1048576, "          \
    "\"memory_limit_bytes\": 4194304, \"draining\": 0}"
#define ANSWERS_WORKERS                                                                            \
    "{\"workers\": [{\"worker\": 0, \"messages_in\": 100, \"bytes_in\": 1000, \"messages_out\": "  \
    "50, \"bytes_out\": 500, \"lost_slow\": 1, \"lost_trimmed\": 0, \"lost_expired\": 0, "         \
    "\"lost_purged\": 2, \"dropped\": 4, \"turns\": 9, \"longest_turn_10s_ns\": 850000}]}"
