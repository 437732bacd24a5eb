/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a shard: its block of the counters file. Each field has a row in metrics.c.
 *
 * Threads: written by the shard's worker, read by any thread, relaxed. Memory: the counters', or
 * embedded in a shard without them.
 */
#pragma once

#include "wire/counters/layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_shard_stats {
    _Atomic uint64_t worker;    /* its number, */
    _Atomic uint64_t processor; /* ... the one that it is bound to; UINT64_MAX: none */
    _Atomic uint64_t turns, sleeps;
    _Atomic uint64_t mails, bells; /* of other threads: mail, and sleeps that ended with one */
    _Atomic uint64_t longest_turn_ns;
    _Atomic uint64_t msgs_in, bytes_in, batches_in;
    _Atomic uint64_t msgs_out, bytes_out, batches_out;
    _Atomic uint64_t msgs_dropped; /* by a policy or of a full log, before all had read them */
    /* Messages that a subscription or a queue does not get, for each of these. */
    _Atomic uint64_t lost_slow, lost_trimmed, lost_expired, lost_purged;
    _Atomic uint64_t msgs_rejected;      /* told to their publisher */
    _Atomic uint64_t granted_refused;    /* batches within a window for which there was no memory */
    _Atomic uint64_t prepared_lapsed;    /* buffers that were prepared and not used in time */
    _Atomic uint64_t unreserved_refused; /* the same, of what no memory was reserved for any more */
    _Atomic uint64_t frames_ignored;     /* named nothing that is open */
    _Atomic uint64_t frames_foreign;     /* of no session of this worker's UCX port */
    _Atomic uint64_t copies;             /* batches that went out by copy */
    _Atomic uint64_t maps;               /* ... by map descriptor */
    _Atomic uint64_t memory_used;        /* bytes in use in its segments: messages and leases */
    _Atomic uint64_t quarantined_bytes;
    _Atomic uint64_t sparse_slabs; /* of the pool, as of the last look (compact.h) */
    _Atomic uint64_t compacted, compacted_bytes;
    _Atomic uint64_t commits_in;             /* leased batches */
    _Atomic uint64_t commits_refused;        /* ... that broke a rule; their session ends */
    _Atomic uint64_t twins, twins_failed;    /* host copies of batches in GPU memory */
    _Atomic uint64_t spilled, spilled_bytes; /* messages that spill.h moved to host memory */
    _Atomic uint64_t leases_refused;         /* requests for a lease segment: limits, memory */
    _Atomic uint64_t msgs_redelivered;
    _Atomic uint64_t msgs_settled_late;      /* ... after their time was over */
    _Atomic uint64_t msgs_dead;              /* given up, and */
    _Atomic uint64_t msgs_dead_lost;         /* of them, not even kept as dead letters */
    _Atomic uint64_t fetches, fetched_bytes; /* answered, of lazy subscriptions */
    _Atomic uint64_t fetches_stale;          /* ... of a payload that was not there any more */
    _Atomic uint64_t unlisted;               /* objects for which there was no slot, lately */
    _Atomic uint64_t losses_forgotten;       /* records of losses that had, or left, no room */
    /* Pairs of the longest turn that ended in a second, and that second. */
    _Atomic uint64_t recent_turns[2 * AMB_RECENT_CELLS];
    /* Batches by how long they were here before a reader was given them, and the sum of that. */
    _Atomic uint64_t delay[AMB_DELAY_BUCKETS], delay_sum_ns;
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

static inline void amb_stat_set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

/* A batch was given to a reader, so long after it had come. */
static inline void amb_stat_delay(struct amb_shard_stats *stats, int64_t delay_ns)
{
    uint64_t ns = delay_ns < 0 ? 0 : (uint64_t)delay_ns;
    unsigned bits = 64u - (unsigned)__builtin_clzll(ns >> AMB_DELAY_SHIFT << 1 | 1) - 1;
    bits = bits < AMB_DELAY_BUCKETS ? bits : AMB_DELAY_BUCKETS - 1;
    amb_stat_add(&stats->delay[bits], 1);
    amb_stat_add(&stats->delay_sum_ns, ns);
}

/* A reader does not get so many messages; others: neither expired nor purged. */
static inline void amb_stat_lost(struct amb_shard_stats *stats, uint64_t others, uint64_t expired,
                                 uint64_t purged, bool is_slow)
{
    amb_stat_add(&stats->lost_expired, expired);
    amb_stat_add(&stats->lost_purged, purged);
    amb_stat_add(is_slow ? &stats->lost_slow : &stats->lost_trimmed, others);
}

/* A turn has ended, and took so long. */
void amb_stat_turn(struct amb_shard_stats *stats, uint64_t took_ns, int64_t now_ns);
