/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that the control thread makes, for the page: which lanes a client has, and why not better
 * ones. An answer is kept for some seconds, whoever asks how often, so that looking costs the
 * broker little. Its requests wait suspended meanwhile.
 *
 *   request ─► place: asks control ─► all requests of that question get the answer
 *
 * Threads: the observer; a question is the control thread's while it is asked. Memory: the answers.
 */
#pragma once

#include "broker/control/status/status.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_TABLES 4u
#define AMB_TABLE_REQUESTS 8u
#define AMB_TABLE_KEPT_NS INT64_C(5000000000)
#define AMB_TABLE_WAIT_NS INT64_C(10000000000)

struct amb_control;
struct amb_tables;

/* One question, and its last answer. */
struct amb_table {
    struct amb_status_ask ask;
    bool is_asked; /* the control thread has it */
    int64_t asked_ns;
    int64_t came_ns; /* when the answer did; 0: none has */
    unsigned count;  /* requests that wait for it */
    struct MHD_Connection *waiting[AMB_TABLE_REQUESTS];
};

struct amb_tables {
    struct amb_control *control;
    struct amb_inbox *inbox; /* the observer's */
    bool is_over;            /* nobody answers any more */
    struct amb_table of[AMB_TABLES];
};

/* Is it one of these, as "transports"? */
bool amb_tables_has(const char *view);
/* The answer of a question, as "paths NAME". *text: until the next call. EAGAIN: the request is
 * suspended, and its handler is called again. EBUSY: too many questions, or requests, or the end.
 * ETIMEDOUT: the control thread has not answered for AMB_TABLE_WAIT_NS. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_tables_ask(struct amb_tables *tables, const char *query,
                                              struct MHD_Connection *connection, int64_t now_ns,
                                              const char **text);
/* Why there is none, by that status: static. */
const char *amb_tables_why(enum amb_status status);
/* Wakes requests that have waited for too long. */
void amb_tables_tick(struct amb_tables *tables, int64_t now_ns);
/* Wakes all of them, before libmicrohttpd stops, and frees the answers. Their handlers are called
 * again, and none waits from here on: libmicrohttpd aborts where one is suspended as it stops. */
void amb_tables_end(struct amb_tables *tables);
