/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/signals.h"

#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Of amb_signals_call, and of stop and detach, which say in a flag what they want; from anybody
 * else it is harmless. One is pending at most, so that it needs no place in a queue. A real-time
 * one fails where this user's processes have used up RLIMIT_SIGPENDING, and clients cause it. */
#define CALL SIGURG
/* The third request to end: something hangs. */
#define TERMS_MAX 3u

static void fill_set(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
    (void)sigaddset(set, SIGUSR1);
    (void)sigaddset(set, SIGUSR2);
    (void)sigaddset(set, CALL);
}

void amb_signals_block(void)
{
    sigset_t set;
    fill_set(&set);
    amb_assert(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGIO, SIG_IGN); /* Segments are asked about by file leases (segment.c). */
}

static void on_term(struct amb_signals *signals, unsigned *terms, bool *is_draining,
                    bool is_detached)
{
    (*terms)++;
    if (*terms >= TERMS_MAX) {
        amb_error("third request to end: ends now");
        _exit(1);
    }
    amb_info(*terms == 1 ? "asked to end: draining" : "asked again: ends at once");
    /* A drain that USR2 began is not made harder by the first TERM. */
    if ((*terms > 1 || !*is_draining) && !is_detached) {
        signals->events.drain(signals->arg);
    }
    *is_draining = true;
}

/* CALL has come, and not for a stop. */
static void on_call(struct amb_signals *signals, bool *is_detached)
{
    if (*is_detached) {
        return;
    }
    if (atomic_load_explicit(&signals->must_detach, memory_order_acquire)) {
        *is_detached = true;
        (void)sem_post(&signals->detached);
    } else if (signals->events.call != NULL) {
        signals->events.call(signals->arg);
    }
}

static void *run(void *arg)
{
    struct amb_signals *signals = arg;
    unsigned terms = 0;
    bool is_draining = false, is_detached = false;
    sigset_t set;
    fill_set(&set);
    for (;;) {
        int number = sigwaitinfo(&set, NULL);
        if (number == CALL && atomic_load_explicit(&signals->must_stop, memory_order_acquire)) {
            return NULL;
        }
        if (number == SIGTERM || number == SIGINT) {
            on_term(signals, &terms, &is_draining, is_detached);
        } else if (number == CALL) {
            on_call(signals, &is_detached);
        } else if (is_detached) {
            continue;
        } else if (number == SIGUSR2 && !is_draining) {
            amb_info("asked to drain");
            is_draining = true;
            signals->events.drain(signals->arg);
        } else if (number == SIGHUP) {
            signals->events.reload(signals->arg);
        } else if (number == SIGUSR1) {
            signals->events.reopen(signals->arg);
        }
    }
}

enum amb_status amb_signals_start(struct amb_signals *signals,
                                  const struct amb_signals_events *events, void *arg)
{
    signals->events = *events;
    signals->arg = arg;
    atomic_init(&signals->must_detach, false);
    atomic_init(&signals->must_stop, false);
    if (sem_init(&signals->detached, 0, 0) != 0) {
        return AMB_EINTERNAL;
    }
    int error = pthread_create(&signals->thread, NULL, run, signals);
    if (error != 0) {
        amb_error("no thread for signals: %s", strerror(error));
        (void)sem_destroy(&signals->detached);
        return AMB_EINTERNAL;
    }
    (void)pthread_setname_np(signals->thread, "amb-signals");
    return AMB_OK;
}

void amb_signals_drain(struct amb_signals *signals)
{
    amb_assert(pthread_kill(signals->thread, SIGUSR2) == 0);
}

void amb_signals_reload(struct amb_signals *signals)
{
    amb_assert(pthread_kill(signals->thread, SIGHUP) == 0);
}

void amb_signals_call(struct amb_signals *signals)
{
    amb_assert(pthread_kill(signals->thread, CALL) == 0);
}

void amb_signals_detach(struct amb_signals *signals)
{
    atomic_store_explicit(&signals->must_detach, true, memory_order_release);
    amb_signals_call(signals);
    while (sem_wait(&signals->detached) != 0) {
    }
}

void amb_signals_stop(struct amb_signals *signals)
{
    atomic_store_explicit(&signals->must_stop, true, memory_order_release);
    /* A stray CALL may have ended it already. */
    int error = pthread_kill(signals->thread, CALL);
    amb_assert(error == 0 || error == ESRCH);
    amb_assert(pthread_join(signals->thread, NULL) == 0);
    (void)sem_destroy(&signals->detached);
}
