/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/topic in a shard.
 *
 * Threads: the shard's worker. Memory: embedded in the shard; the table is one allocation.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/memory/maker.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SHARDS_MAX 64u /* AMB_WORKERS_MAX */
/* A turn's work for publishers that wait for memory: */
#define AMB_SHARD_SHED_TURN 16384u /* entries that are dropped, or looks at topics, */
#define AMB_SHARD_TRIM_TURN 8u     /* and looks for segments that are free */

struct amb_shard;
struct amb_topic;

struct amb_shard_topics {
    struct amb_topic **at; /* by amb_topic_cell; NULL where this shard has none */
    uint32_t cells;
};

/* history.c */
struct amb_shard_history {
    struct amb_list_node timed; /* struct amb_topic.history.timed */
    int64_t due_ns;             /* the list is not looked at before */
};

static inline void amb_shard_history_init(struct amb_shard_history *history)
{
    amb_list_init(&history->timed);
    history->due_ns = INT64_MAX;
}

/* log/prelude.c */
struct amb_shard_preludes {
    struct amb_list_node waiting; /* struct amb_prelude.of_shard: wait for a slice */
};

static inline void amb_shard_preludes_init(struct amb_shard_preludes *preludes)
{
    amb_list_init(&preludes->waiting);
}

/* The walk of compact.c through the logs. */
struct amb_shard_compact {
    int64_t due_ns; /* nothing is done before */
    bool is_walking;
    uint32_t topic;
    uint64_t position;
};

/* One shard's word to another that it is short of memory or of entries, and the answer. */
struct amb_relief {
    struct amb_mail mail;
    struct amb_unmaking after; /* the answer, behind the segments that went for it */
    struct amb_shard *asker;
    uint64_t bytes;     /* wanted */
    uint64_t given;     /* the bytes of segments that went for it */
    bool is_pressed;    /* a publisher has waited for long */
    bool is_of_entries; /* the asker lacks entries, and `bytes` says nothing */
    bool is_out;        /* the mail is under way: there, behind segments, or back */
};

/* reclaim.c */
struct amb_shard_reclaim {
    /* Memory is short: payloads that lazy readers have not asked for may go stale. False: there are
     * none. amb_shard_init gives it. */
    bool (*drop_kept)(struct amb_shard *shard);
    const struct amb_topic *spared; /* its log is being read, and is not looked through */
    uint32_t trim_budget;           /* of AMB_SHARD_TRIM_TURN, this turn */
    uint32_t shed_budget;           /* of AMB_SHARD_SHED_TURN, this turn */
    uint32_t shed_next;             /* index of the topic where the walk goes on */
    uint32_t shed_walked;           /* topics that this walk has passed */
    bool shed_goes_on;              /* the walk stopped because this turn's budget is used up */
    int64_t shed_at_ns;             /* this shard's topics are not looked through again before */
    int64_t relief_at_ns;           /* the other shards are not asked again before */
    _Atomic uint64_t coming; /* `given` of all reliefs that are out: other shards add to it */
    uint32_t relief_budget;  /* of AMB_SHARD_SHED_TURN, this turn, for all that ask */
    uint32_t relief_last;    /* index of the topic shed last for another shard */
    uint64_t looks;          /* number of the newest look at the private shadows of some topic */
    uint64_t shed_look;      /* number of the look that the walk goes on with; 0: none */
    uint64_t relief_look;    /* the same of the walk for other shards */
    struct amb_relief relief[AMB_SHARDS_MAX]; /* asked of each other shard */
};

static inline void amb_shard_reclaim_turn(struct amb_shard_reclaim *reclaim)
{
    reclaim->shed_budget = AMB_SHARD_SHED_TURN;
    reclaim->relief_budget = AMB_SHARD_SHED_TURN;
    reclaim->trim_budget = AMB_SHARD_TRIM_TURN;
    reclaim->shed_goes_on = false;
}
