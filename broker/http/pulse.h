/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the threads of the broker still turn? Each is sent a mail, and marks it when it reads its
 * inbox. A thread that sleeps is woken by it, so nobody is asked unless somebody wants to know.
 *
 * Threads: the observer; a mail is read by the thread it is sent to. Memory: embedded in the HTTP
 * door, which outlives the inboxes.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/config/config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_PULSE_THREADS_MAX (AMB_WORKERS_MAX + 1u) /* the workers and the control thread */

struct amb_pulse_probe {
    struct amb_mail mail;
    struct amb_inbox *to;
    int64_t asked_ns;        /* when the last mail was sent */
    _Atomic bool is_waiting; /* ... and it was not read yet */
};

struct amb_pulse {
    struct amb_pulse_probe probes[AMB_PULSE_THREADS_MAX];
    unsigned count;
};

/* Its number is the count of those before. */
void amb_pulse_add(struct amb_pulse *pulse, struct amb_inbox *to);
/* Sends each thread a mail that has read the last one. */
void amb_pulse_ask(struct amb_pulse *pulse, int64_t now_ns);
/* The threads have ended: none is asked any more. */
void amb_pulse_end(struct amb_pulse *pulse);
/* How long the slowest of the first `threads` has not read its mail, and its number. */
int64_t amb_pulse_silence_ns(const struct amb_pulse *pulse, unsigned threads, int64_t now_ns,
                             unsigned *thread);
