/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of brokerd, taken by one thread that sleeps in sigwaitinfo. TERM and INT drain, and a
 * second one of them ends at once. USR2 drains, HUP calls back, USR1 is for log files to come.
 * Threads: block and stop from the main thread; the callbacks run on the signal thread.
 * Memory: one thread.
 */
#pragma once

#include "wire/base/status.h"

#include <pthread.h>

struct amb_signals_events {
    void (*drain)(void *arg);  /* once, and once more for each further TERM or INT */
    void (*reload)(void *arg); /* HUP; several at once may become one */
};

struct amb_signals {
    struct amb_signals_events events;
    void *arg;
    pthread_t thread;
};

/* Blocks every signal taken here, and ignores PIPE, for this thread and all it starts. */
void amb_signals_block(void);
/* EINTERNAL, with the system's reason in the log. *signals must not move. */
AMB_MUST_CHECK enum amb_status
amb_signals_start(struct amb_signals *signals, const struct amb_signals_events *events, void *arg);
/* Ends the thread; no callback runs after it. */
void amb_signals_stop(struct amb_signals *signals);
