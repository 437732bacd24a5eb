/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The porter: a thread for the slow work of coming and going. So neither the control thread nor a
 * worker stands still for it, however many clients come and go.
 *
 *   control ── order ──► porter: the memory of a ring, about 1 ms ── the same order ──► worker
 *   worker ── a closed ring ──► porter: unmaps it
 *   control, worker ── a connection ──► porter: closes it
 *
 * A connection with descriptors in it that nobody asked for (wire/base/passed.h) may take any time
 * to close. The porter does not wait for that either. The last reference is dropped by the end of a
 * bearer, a thread with a table of descriptors of its own. A thread that ends does not linger.
 *
 * Threads: the calls from any; start and stop where the broker starts and stops. The porter stops
 * after the workers, which post to it until then; later mail is done by its caller.
 * Memory: an allocation for each ring or connection under way.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_link_waste;
struct amb_order_session_open;
struct amb_shard;

struct amb_porter {
    struct amb_inbox inbox;
    struct amb_mail stop;
    pthread_t thread;
    bool is_running;
    bool is_stopping;          /* the porter's own */
    _Atomic bool is_refusing;  /* no rings are made any more */
    _Atomic uint32_t closing;  /* connections to be closed */
    _Atomic uint64_t burdened; /* ... that had descriptors in them */
};

AMB_MUST_CHECK enum amb_status amb_porter_start(struct amb_porter *porter);
/* From here on rings are refused, also those that wait to be made: the broker ends. */
void amb_porter_refuse(struct amb_porter *porter);
/* Refuses rings, finishes what else is under way, and ends the thread. No other thread posts to it
 * meanwhile. Harmless on a zeroed one, and twice. */
void amb_porter_stop(struct amb_porter *porter);

/* Of a session with a ring: makes the ring, then posts the order. Its status is
 * ECLOSED where rings are refused, or as amb_ring_create's. */
void amb_porter_open(struct amb_porter *porter, struct amb_shard *shard,
                     struct amb_order_session_open *open);
/* Shuts a Unix connection, or a listener, down at once, and takes its descriptor over. porter NULL:
 * closes it. */
void amb_porter_close(struct amb_porter *porter, int fd);
/* Gives back what a closed link has left, which nobody is to read any more. Its contents go, unless
 * the broker ends. Done at once without memory for a mail, and where porter is NULL: then the
 * contents stay. */
void amb_porter_dispose(struct amb_porter *porter, struct amb_link_waste *waste);
/* Do more connections wait to be closed than there may be descriptors for (server.max_closing)? */
static inline bool amb_porter_is_behind(const struct amb_porter *porter, uint32_t most)
{
    return porter != NULL && atomic_load_explicit(&porter->closing, memory_order_relaxed) > most;
}
