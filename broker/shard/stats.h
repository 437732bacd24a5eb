/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a shard.
 *
 * Threads: written by the shard's worker, read by any thread, relaxed. Memory: embedded.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct amb_shard_stats {
    _Atomic uint64_t turns, sleeps;
    _Atomic uint64_t mails, bells; /* of other threads: mail, and sleeps that ended with one */
    _Atomic uint64_t longest_turn_ns;
    _Atomic uint64_t msgs_in, bytes_in, batches_in;
    _Atomic uint64_t msgs_out, bytes_out, batches_out;
    _Atomic uint64_t msgs_dropped;       /* for a subscription, by its policy or a full topic */
    _Atomic uint64_t msgs_rejected;      /* told to their publisher */
    _Atomic uint64_t granted_refused;    /* batches within a window for which there was no memory */
    _Atomic uint64_t prepared_lapsed;    /* buffers that were prepared and not used in time */
    _Atomic uint64_t unreserved_refused; /* the same, of what no memory was reserved for any more */
    _Atomic uint64_t frames_ignored;     /* named nothing that is open */
    _Atomic uint64_t copies;             /* batches that went out by copy */
    _Atomic uint64_t maps;               /* ... by map descriptor */
    _Atomic uint64_t quarantined_bytes;
    _Atomic uint64_t sparse_slabs; /* of the pool, as of the last look (compact.h) */
    _Atomic uint64_t compacted, compacted_bytes;
    _Atomic uint64_t commits_in;             /* leased batches */
    _Atomic uint64_t commits_refused;        /* ... that broke a rule; their session ends */
    _Atomic uint64_t twins, twins_failed;    /* host copies of batches in GPU memory */
    _Atomic uint64_t spilled, spilled_bytes; /* messages that spill.h moved to host memory */
    _Atomic uint64_t leases_refused;         /* requests for a lease segment: limits, memory */
    _Atomic uint64_t msgs_redelivered;
    _Atomic uint64_t msgs_dead;              /* given up, and */
    _Atomic uint64_t msgs_dead_lost;         /* of them, not even kept as dead letters */
    _Atomic uint64_t fetches, fetched_bytes; /* answered, of lazy subscriptions */
    _Atomic uint64_t fetches_stale;          /* ... of a payload that was not there any more */
};

static inline void amb_stat_add(_Atomic uint64_t *counter, uint64_t n)
{
    /* One writer, so a plain addition; atomic for the readers only. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline uint64_t amb_stat_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}
