/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An honest client of a brokerd: one handshake after the other, timed, while others misbehave.
 * Threads: honest_handshake: any; a prober has a thread of its own.
 */
#pragma once

#include "tests/support/process/brokerd_process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define HONEST_TOKEN "an honest token"
#define HONEST_SAMPLES 4096u

/* Connects, says Hello and Auth (with HONEST_TOKEN), gets Welcome, leaves. False: it failed, and
 * *what says at which step. *recorded (may be NULL) gets what was sent: room for 512 bytes. */
bool honest_handshake(const struct brokerd *brokerd, bool is_unix, const char **what,
                      uint8_t *recorded, size_t *recorded_len);

struct honest_prober {
    const struct brokerd *brokerd;
    pthread_t thread;
    atomic_bool is_stopping;
    unsigned count, failed;
    const char *what; /* of the first failure */
    int64_t ns[HONEST_SAMPLES];
};

/* A handshake every 5 ms, on both doors in turn. */
void honest_prober_start(struct honest_prober *prober, const struct brokerd *brokerd);
/* Sorts the samples. */
void honest_prober_stop(struct honest_prober *prober);
/* After stop; permille 0..1000, in microseconds. */
int64_t honest_prober_us(const struct honest_prober *prober, unsigned permille);
