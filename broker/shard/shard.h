/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard: everything one worker thread owns. Its sessions, its topics (those it is home to, and
 * shadows of others that its subscriptions read), its buffers. The stages of the data path take a
 * shard and touch no other; their wishes to another shard go by mail.
 *
 *   control ──orders──► shard ◄──mail──► shard
 *                         ├── sessions ── publishers, subscriptions
 *                         ├── topics ── log, cursors, lends
 *                         └── bufpools ── segments
 *
 * Threads: the worker, except where a field says otherwise. Time is a field, set once a turn, so
 * the same code runs under a simulated clock.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/count/loss_book.h"
#include "broker/count/shard_stats.h"
#include "broker/shard/sifter.h"
#include "broker/shard/state/delivery.h"
#include "broker/shard/state/ingest.h"
#include "broker/shard/state/lease.h"
#include "broker/shard/state/memory.h"
#include "broker/shard/state/observe.h"
#include "broker/shard/state/session.h"
#include "broker/shard/state/topic.h"
#include "broker/shard/state/worker.h"
#include "broker/shard/upcalls.h"
#include "wire/base/apart.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SESSIONS_MAX 65536u /* of one shard */

struct amb_config;
struct amb_config_limits;
struct amb_counters;

/* The fields that all stages ask stand here by themselves. The rest is one struct a file, with the
 * room's others in a header of state/. */
struct amb_shard {
    struct amb_list_node purses; /* struct amb_purse.node */
    unsigned index;
    bool is_draining;               /* no new batches */
    struct amb_inbox *control;      /* of the control thread: answers and requests */
    struct amb_shard *const *peers; /* all shards, this one too */
    unsigned peer_count;
    const struct amb_config *config; /* that it was started with: for what only a restart changes */
    const struct amb_config *live;   /* a reference: the one in force, */
    const struct amb_config_limits *limits; /* ... and its limits; the worker's own */
    const struct amb_shard_upcalls *upcalls;
    struct amb_shard_stats *stats; /* of the counters, or own_stats */
    struct amb_counters *counters; /* NULL: objects have no slots */
    struct amb_loss_book losses;   /* of its subscriptions; there are none without counters */

    /* The fields of each part that a turn asks, side by side. */
    int64_t now_ns, real_ns; /* of this turn */
    struct amb_shard_topics topics;
    struct amb_shard_forward forward;
    struct amb_shard_poll poll;
    struct amb_shard_queues queues;
    struct amb_shard_takers takers;
    struct amb_shard_pace pace;
    struct amb_shard_spill spill;
    struct amb_shard_sweep sweep;
    struct amb_shard_clearing clearing;
    struct amb_shard_history history;
    struct amb_shard_compact compact;
    struct amb_shard_gpuslots gpuslots;
    struct amb_shard_slow slow;
    struct amb_shard_observe observe;
    struct amb_shard_trace trace;
    struct amb_shard_windows windows;
    struct amb_sift sift; /* the filters that are asked, and when */
    struct amb_shard_ucx ucx;
    struct amb_shard_sessions sessions;
    struct amb_shard_hearing hearing;

    struct amb_shard_entries entries;
    struct amb_shard_outgoing outgoing;
    struct amb_shard_tallies tallies;
    struct amb_shard_memory memory;

    struct amb_shard_takes takes;
    struct amb_shard_lazy lazy;
    struct amb_shard_leases leases;
    struct amb_shard_preludes preludes;
    struct amb_shard_reclaim reclaim;
    struct amb_shard_stats own_stats; /* where there are no counters */

    /* Any thread may post: not beside fields that the worker reads each turn. */
    char apart_before[AMB_APART];
    struct amb_inbox inbox;
    char apart_behind[AMB_APART];
};

/* All NULL: of a shard that begins, or that ends. */
extern const struct amb_shard_upcalls amb_shard_no_upcalls;

/* The epoll tag of a session's link; two values are no session's. */
#define AMB_SHARD_TAG_BELL UINT64_MAX
#define AMB_SHARD_TAG_UCX (UINT64_MAX - 1)

static inline uint64_t amb_shard_watch_tag(uint32_t index, uint32_t generation)
{
    return (uint64_t)index << 32 | generation;
}

/*
 * A topic's id: a place in the tables, and above it how often that place was given anew. So an id
 * comes again only after thousands of others in its place.
 */
#define AMB_TOPIC_CELL_BITS 20u
#define AMB_TOPIC_CELLS_MAX (UINT32_C(1) << AMB_TOPIC_CELL_BITS)
static inline uint32_t amb_topic_cell(uint32_t id)
{
    return id & (AMB_TOPIC_CELLS_MAX - 1);
}

/* The topic in the place of that id in this shard, or NULL. amb_shard_topic of topic.h asks for the
 * very topic. */
static inline struct amb_topic *amb_shard_topic_at(const struct amb_shard *shard, uint32_t id)
{
    uint32_t cell = amb_topic_cell(id);
    return cell < shard->topics.cells ? shard->topics.at[cell] : NULL;
}

static inline bool amb_shard_is_dirty(const struct amb_shard *shard)
{
    return !amb_list_is_empty(&shard->forward.dirty[0]) ||
           !amb_list_is_empty(&shard->forward.dirty[1]) ||
           !amb_list_is_empty(&shard->forward.dirty[2]) ||
           !amb_list_is_empty(&shard->queues.dirty) || !amb_list_is_empty(&shard->sift.waiting) ||
           !amb_list_is_empty(&shard->sweep.owners) ||
           !amb_list_is_empty(&shard->clearing.sessions);
}

/* The cell for an id, growing the table; NULL without memory. */
struct amb_topic **amb_shard_topic_cell(struct amb_shard *shard, uint32_t id);
struct amb_session **amb_shard_session_cell(struct amb_shard *shard, uint32_t index);
