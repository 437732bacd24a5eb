/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observer: a thread that makes the answers of views. It reads the counters, and never a
 * worker's or the control thread's own structures, so nobody stands still for an answer.
 *
 *   control ── job ──► observer: the next page of the view, as text ── the same job ──► control
 *
 * HTTP (broker/http) is a guest of this thread.
 *
 * Threads: amb_observer_page from the control thread; start and stop where the broker starts and
 * stops. Memory: a job is its asker's; its page is one allocation, the view some bytes a slot.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/status.h"
#include "wire/counters/view.h"

#include <pthread.h>
#include <stdbool.h>

struct amb_counters;

/* Another one's work in the observer's thread: sockets that it answers on. */
struct amb_observer_guest {
    int fd; /* readable when there is work */
    /* Does it, and returns how many ms later it wants to be called at the latest; -1: never. */
    int (*turn)(void *arg);
    void *arg;
    /* The answer of a job whose query is "page", which asks for the page of HTTP: for free(). NULL:
     * there is no such page. EINVAL, and `why`. ENOMEM. */
    enum amb_status (*visit)(void *arg, char **text, char why[AMB_COUNTERS_REFUSAL_MAX]);
};

struct amb_observer {
    struct amb_observer_guest guest; /* turn NULL: none. Set before the start */
    struct amb_inbox inbox;
    struct amb_mail stop;
    pthread_t thread;
    struct amb_counters_image image; /* of the counters */
    bool is_running;
    bool is_stopping; /* the observer's own */
};

struct amb_observer_job {
    struct amb_mail mail;
    struct amb_inbox *to; /* where `done` is told, */
    amb_mail_fn done;     /* ... with `mail` */
    /* Makes `text` in place of a view, and `status`; NULL: it is a view. */
    void (*make)(struct amb_observer_job *job);
    char query[AMB_COUNTERS_QUERY_MAX];
    bool is_shared;                  /* it sees `share` alone; else all */
    struct amb_counters_share share; /* of the tenant that asks */
    /* Of the answer. */
    struct amb_counters_view *view; /* the asker closes it */
    enum amb_status status;
    char why[AMB_COUNTERS_REFUSAL_MAX]; /* of EINVAL, EFORBIDDEN */
    char *text;                         /* the page, for free() */
    bool is_last;
};

/* ELIMIT, ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_observer_start(struct amb_observer *observer,
                                                  const struct amb_counters *counters);
/* Jobs that are there are answered before. Harmless twice, and on zeros. */
void amb_observer_stop(struct amb_observer *observer);
/* The next page of the job's view; of the query "page" an address that works once, by the guest's
 * `visit`. The job is the observer's until `done`. */
void amb_observer_page(struct amb_observer *observer, struct amb_observer_job *job);
