/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of brokerd, taken by one thread that sleeps in sigwaitinfo. TERM and INT drain, a second
 * one of them ends at once, and a third ends the process on the spot. USR2 drains, HUP and USR1
 * call back, and so does amb_signals_call. Threads: block and stop from the main thread; the
 * callbacks run on the signal thread. Memory: one thread.
 */
#pragma once

#include "wire/base/status.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

struct amb_signals_events {
    void (*drain)(void *arg);  /* once, and once more for each further TERM or INT */
    void (*reload)(void *arg); /* HUP; several at once may become one */
    void (*reopen)(void *arg); /* USR1: log files */
    void (*call)(void *arg);   /* amb_signals_call; NULL: nobody calls it */
};

struct amb_signals {
    struct amb_signals_events events;
    void *arg;
    pthread_t thread;
    sem_t detached;
    /* The wishes of detach and stop, written before they wake the thread. */
    _Atomic bool must_detach, must_stop;
};

/* Blocks every signal taken here, and ignores PIPE, for this thread and all it starts. */
void amb_signals_block(void);
/* EINTERNAL, with the system's reason in the log. *signals must not move. */
AMB_MUST_CHECK enum amb_status
amb_signals_start(struct amb_signals *signals, const struct amb_signals_events *events, void *arg);
/* As USR2. Any thread, before amb_signals_stop. */
void amb_signals_drain(struct amb_signals *signals);
/* As HUP. The same. */
void amb_signals_reload(struct amb_signals *signals);
/* Has `call` run on the thread of signals; several at once may become one. The same. */
void amb_signals_call(struct amb_signals *signals);
/* No callback runs from here on. The third TERM or INT still ends the process: what follows may
 * hang. Blocks for a callback that runs. */
void amb_signals_detach(struct amb_signals *signals);
/* Ends the thread; no callback runs after it. */
void amb_signals_stop(struct amb_signals *signals);
