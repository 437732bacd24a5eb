/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/delivery in a shard, one struct a file. A `due_ns` is the time before which
 * that file has nothing to do; INT64_MAX: none is known.
 *
 * Threads: the shard's worker. Memory: embedded in the shard.
 */
#pragma once

#include "wire/base/idmap.h"
#include "wire/base/list.h"
#include "wire/codec/topic.h"

#include <stdint.h>

struct amb_session;

/* forward.c */
struct amb_shard_forward {
    struct amb_list_node dirty[AMB_PRIORITIES]; /* struct amb_topic.walks.dirty: to be walked this
                                                   turn; by amb_priority_rank */
    /* The ends of this turn's walks, and of the topic's that has its slice. */
    uint64_t upto, slice, looks;
    struct amb_list_node blocked; /* struct amb_cursor.hold.blocked: hold publishers back */
};

static inline void amb_shard_forward_init(struct amb_shard_forward *forward)
{
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        amb_list_init(&forward->dirty[rank]);
    }
    amb_list_init(&forward->blocked);
}

/* reader/pace.c */
struct amb_shard_pace {
    struct amb_list_node waiting; /* struct amb_pace.node */
    int64_t due_ns;
};

static inline void amb_shard_pace_init(struct amb_shard_pace *pace)
{
    amb_list_init(&pace->waiting);
    pace->due_ns = INT64_MAX;
}

/* reader/lazy.c */
struct amb_shard_lazy {
    uint64_t kept;                /* bytes that may go stale */
    struct amb_list_node lacking; /* struct amb_session_lack.node: the next one to ask is first */
};

static inline void amb_shard_lazy_init(struct amb_shard_lazy *lazy)
{
    amb_list_init(&lazy->lacking);
}

/* reader/sweep.c, reader/subscription.c */
struct amb_shard_sweep {
    struct amb_list_node owners; /* struct amb_sweep.node: their cursors are to go */
    unsigned swept;              /* cursors that went at once, this turn */
    struct amb_session *nobody;  /* the session of subscriptions that have gone; NULL: none yet */
};

static inline void amb_shard_sweep_init(struct amb_shard_sweep *sweep)
{
    amb_list_init(&sweep->owners);
}

/* spill.c */
struct amb_shard_spill {
    struct amb_list_node waiting; /* struct amb_topic.spill.node: something is due */
    int64_t due_ns;
};

static inline void amb_shard_spill_init(struct amb_shard_spill *spill)
{
    amb_list_init(&spill->waiting);
    spill->due_ns = INT64_MAX;
}

/* slow.c */
struct amb_shard_slow {
    int64_t due_ns;
    uint64_t moved; /* messages, as of the last look */
};

static inline void amb_shard_slow_init(struct amb_shard_slow *slow)
{
    slow->due_ns = INT64_MAX;
}

/* acks/queue.c */
struct amb_shard_queues {
    struct amb_idmap known;       /* struct amb_queue.known */
    struct amb_list_node dirty;   /* have something to do this turn */
    int64_t due_ns;               /* messages come again: all queues are looked at */
    struct amb_list_node lacking; /* struct amb_queue.lacking: the next one to try again is first */
};

static inline void amb_shard_queues_init(struct amb_shard_queues *queues)
{
    amb_list_init(&queues->dirty);
    amb_list_init(&queues->lacking);
    queues->due_ns = INT64_MAX;
}

/* acks/taker.c */
struct amb_shard_takers {
    struct amb_list_node all;  /* struct amb_taker.node */
    struct amb_list_node busy; /* have something to send */
    int64_t due_ns;            /* a take expires: all of them are looked at */
    int64_t retry_ns;          /* one of `busy` lacked memory, or there are some in `settling` */
    struct amb_list_node settling; /* struct amb_formers.settling */
    int64_t settled_ns;            /* the turn, by its time, that */
    unsigned settle_budget;        /* ... this is of: acks/former.c */
};

static inline void amb_shard_takers_init(struct amb_shard_takers *takers)
{
    amb_list_init(&takers->all);
    amb_list_init(&takers->busy);
    amb_list_init(&takers->settling);
    takers->due_ns = takers->retry_ns = INT64_MAX;
}

/* acks/take.c */
struct amb_shard_takes {
    struct amb_list_node spare; /* kept for use again */
    uint32_t spare_count;
};

static inline void amb_shard_takes_init(struct amb_shard_takes *takes)
{
    amb_list_init(&takes->spare);
}
