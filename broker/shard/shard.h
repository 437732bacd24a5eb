/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard: everything one worker thread owns. Its sessions, its topics (those it is home to, and
 * shadows of others that its subscriptions read), its buffers. The stages of the data path take a
 * shard and touch no other; what they want of another shard goes by mail.
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
#include "broker/memory/bufpool.h"
#include "broker/shard/sifter.h"
#include "wire/base/idmap.h"
#include "wire/base/list.h"
#include "wire/base/pool.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_SHARDS_MAX 64u
#define AMB_SESSIONS_MAX 65536u /* of one shard */
/* A turn's work for sessions that close: */
#define AMB_SHARD_HEAR_TURN 4u      /* polls of their links, */
#define AMB_SHARD_CLEAR_TURN 16384u /* ... and deliveries that are given up */
/* ... for publishers that wait for memory: entries that are dropped. */
#define AMB_SHARD_SHED_TURN 16384u
#define AMB_SHARD_TRIM_TURN 8u /* ... and looks for segments that are free */

struct amb_config;
struct amb_entry;
struct amb_config_limits;
struct amb_gpus;
struct amb_maker;
struct amb_porter;
struct amb_note;
struct amb_session;
struct amb_topic;
struct amb_ucx_context;
struct amb_ucx_worker;

/* Written by the worker, read by anybody, relaxed. */
struct amb_shard_stats {
    _Atomic uint64_t turns, sleeps;
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
    _Atomic uint64_t fetches_stale;          /* ... whose payload was not there any more */
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

/* Where compact.h is in its walk through the logs. */
struct amb_compaction {
    int64_t next_ns; /* does nothing before */
    bool is_walking;
    uint32_t topic;
    uint64_t position;
};

/* One shard's word to another that it is short of memory (reclaim.h). */
struct amb_relief {
    struct amb_mail mail;
    struct amb_shard *asker;
    uint64_t bytes;  /* wanted */
    bool is_pressed; /* a publisher has waited for long */
    bool is_out;     /* the mail is under way, there or back */
};

struct amb_shard {
    unsigned index;
    struct amb_inbox inbox;         /* any thread may post */
    struct amb_inbox *control;      /* of the control thread: answers and requests */
    struct amb_shard *const *peers; /* all shards, this one too */
    unsigned peer_count;
    const struct amb_config *config;        /* that it was started with */
    const struct amb_config_limits *limits; /* those in force; the worker's own */
    struct amb_bufpool bufpool;             /* of what any client on this host may map */
    struct amb_bufpool private_pool; /* of what is for its readers alone: replies, requests */
    struct amb_pool entries, txs, tallies;
    uint64_t heap_bufs; /* bytes of buffers of entries that no pool had room for (commit.h) */
    size_t entries_max; /* beyond it nothing more is taken in */
    struct amb_list_node leases;       /* struct amb_lease.of_shard */
    uint64_t leased_bytes;             /* of their segments */
    uint64_t windows_max;              /* bytes that windows may stand open; 0: not asked yet */
    struct amb_list_node gpu_slots;    /* struct amb_lease.of_book: the shard's own (gpuslot.h) */
    int64_t gpu_slots_ns;              /* they are not looked at before */
    struct amb_maker *maker;           /* of segments; NULL: they are made by the worker itself */
    struct amb_porter *porter;         /* the same of rings */
    struct amb_gpus *gpus;             /* NULL: none */
    struct amb_ucx_context *ucx;       /* NULL: no ucx links */
    struct amb_ucx_worker *ucx_worker; /* NULL until it is asked for: ucxport.h */
    int64_t now_ns, real_ns;           /* of this turn */
    bool is_draining;                  /* no new batches */

    struct amb_topic **topics; /* by amb_topic_slot; NULL where this shard has none */
    uint32_t topic_slots;
    struct amb_session **sessions; /* by index */
    uint32_t session_slots;
    struct amb_list_node live_sessions; /* struct amb_session.live */
    struct amb_list_node warm, cold;    /* the same, struct amb_session.heat */
    uint32_t warm_count, cold_count, cold_watched;
    int64_t edges_ns;              /* when the system was asked last whose links have something */
    struct amb_list_node hearing;  /* struct amb_order.u.close.hearing: sessions that close, by */
    uint64_t hearings;             /* ... their numbers; this is the newest one */
    unsigned hear_left;            /* polls of their links that are left, this turn */
    struct amb_list_node clearing; /* struct amb_session.clearing: closed, and not gone yet */
    unsigned clear_left;           /* deliveries that may be given up for them this turn */
    struct amb_list_node dirty_topics[AMB_PRIORITIES]; /* struct amb_topic.dirty: to be walked this
                                             turn; by amb_priority_rank */
    /* How far this turn's walks go, and that of the topic that has its slice: forward.h */
    uint64_t forward_upto, forward_slice, forward_looks;
    struct amb_list_node starving;  /* struct amb_publisher.starving: wait for memory */
    struct amb_list_node preparing; /* struct amb_publisher.preparing: have a buffer unused */
    struct amb_list_node rationed;  /* the same: wait until their sessions have less of it */
    bool is_pressed;                /* the publisher that is served just now has waited for long */
    struct amb_list_node blocked;   /* struct amb_cursor.blocked: hold publishers back */
    struct amb_list_node paced;     /* struct amb_pace.node: wait for their time */
    int64_t pace_due_ns;            /* none is due before; INT64_MAX */
    struct amb_list_node timed;     /* struct amb_topic.timed: history.h */
    int64_t timed_ns;               /* they are not looked at before */
    struct amb_list_node spilling;  /* struct amb_spill.node: something is due */
    int64_t spill_ns;               /* ... not before; INT64_MAX */
    int64_t slow_ns;                /* slow.h: does nothing before */
    uint64_t slow_moved;            /* messages, as of the last look */
    struct amb_relief relief[AMB_SHARDS_MAX]; /* asked of each other shard */
    uint64_t lazy_kept;                       /* bytes that may go stale: lazy.h */
    const struct amb_topic *kept;             /* its log is being read, and is not looked through */
    uint32_t trims_left;                      /* of AMB_SHARD_TRIM_TURN, this turn */
    uint32_t shed_left;                       /* of AMB_SHARD_SHED_TURN, this turn */
    uint32_t shed_next;                       /* index of the topic where the walk goes on */
    uint32_t shed_walked;                     /* topics that this walk has passed */
    bool shed_goes_on;                        /* it stopped because this turn's budget is used up */
    uint32_t relief_last;              /* index of the topic that was shed last for another shard */
    int64_t shed_at_ns;                /* its own topics are not looked through again before */
    int64_t relief_at_ns;              /* not asked again before */
    struct amb_idmap queues;           /* struct amb_queue.known */
    struct amb_list_node dirty_queues; /* have something to do this turn */
    struct amb_list_node takers;       /* struct amb_taker.node */
    struct amb_list_node busy_takers;  /* have something to send */
    struct amb_list_node takes;        /* kept for use again */
    uint32_t takes_cached;
    int64_t queue_due_ns, take_due_ns; /* nothing is to be done before; INT64_MAX */
    struct amb_compaction compaction;
    unsigned swept;                /* cursors that went at once, this turn */
    struct amb_list_node preludes; /* struct amb_prelude.of_shard: wait for a slice */
    struct amb_list_node sweeps;   /* struct amb_sweep.node: cursors that are to go (sweep.h) */
    struct amb_session
        *nobody;            /* whose subscriptions those are that have gone; NULL: no need yet */
    struct amb_sift sift;   /* whose filters are asked when */
    int epoll_fd;           /* -1 under the simulator */
    bool is_bulk;           /* the last batch had many messages: a wait is not worth a spin */
    uint32_t resting, busy; /* watched links that wait for an edge, and that do not */
    /* Memory is short: what lazy readers have not asked for may go stale. False: there is none.
     * amb_shard_init gives it. */
    bool (*drop_kept)(struct amb_shard *shard);
    /* Upcalls, given at start: */
    /* Hand a segment to a client; fd is a duplicate and the callee's. */
    void (*offer_segment)(struct amb_shard *shard, uint64_t client_id, uint64_t segment,
                          uint64_t size, int fd);
    /* The same of one in GPU memory; NULL: nobody maps those. */
    void (*offer_gpu)(struct amb_shard *shard, uint64_t client_id,
                      const struct amb_segment *segment);
    /* A segment of this shard is about to be unmapped; NULL: nobody is told. */
    void (*segment_gone)(struct amb_shard *shard, uint64_t segment);
    /* A session's link is gone for good, or its client broke a rule (EPROTO). */
    void (*session_ended)(struct amb_shard *shard, uint64_t client_id, enum amb_status why,
                          const char *text);
    /* A dead letter: takes over the entry, whose topic is that of the name. NULL: there are none.
     */
    void (*dead_letter)(struct amb_shard *shard, struct amb_entry *entry, const char *topic);
    /* A quiet topic at home here has its first message: amb_directory_heard, then
     * amb_order_topic_awake. NULL where no topic is quiet. */
    void (*topic_heard)(struct amb_topic *topic);
    /* A subscription is slow, or has lost something; NULL: nobody is told. */
    void (*noted)(struct amb_shard *shard, const struct amb_note *note);
    struct amb_shard_stats stats;
};

static inline struct amb_bufpool *amb_shard_pool(struct amb_shard *shard, bool is_private)
{
    return is_private ? &shard->private_pool : &shard->bufpool;
}

/* What the shard's epoll says of a session's link; two values are no session's. */
#define AMB_SHARD_TAG_BELL UINT64_MAX
#define AMB_SHARD_TAG_UCX (UINT64_MAX - 1)

static inline uint64_t amb_shard_watch_tag(uint32_t index, uint32_t generation)
{
    return (uint64_t)index << 32 | generation;
}

/*
 * A topic's id: a place in the tables, and above it how often that place was given anew, so that an
 * id comes again only after thousands of others in its place.
 */
#define AMB_TOPIC_SLOT_BITS 20u
#define AMB_TOPIC_SLOTS_MAX (UINT32_C(1) << AMB_TOPIC_SLOT_BITS)
static inline uint32_t amb_topic_slot(uint32_t id)
{
    return id & (AMB_TOPIC_SLOTS_MAX - 1);
}

/* What has the place of that id in this shard, or NULL. amb_shard_topic of topic.h asks for the
 * very topic. */
static inline struct amb_topic *amb_shard_topic_at(const struct amb_shard *shard, uint32_t id)
{
    uint32_t slot = amb_topic_slot(id);
    return slot < shard->topic_slots ? shard->topics[slot] : NULL;
}

static inline bool amb_shard_is_dirty(const struct amb_shard *shard)
{
    return !amb_list_is_empty(&shard->dirty_topics[0]) ||
           !amb_list_is_empty(&shard->dirty_topics[1]) ||
           !amb_list_is_empty(&shard->dirty_topics[2]) ||
           !amb_list_is_empty(&shard->dirty_queues) || !amb_list_is_empty(&shard->sift.waiting) ||
           !amb_list_is_empty(&shard->sweeps) || !amb_list_is_empty(&shard->clearing);
}

/* The slot for an id, growing the table; NULL without memory. */
struct amb_topic **amb_shard_topic_slot(struct amb_shard *shard, uint32_t id);
struct amb_session **amb_shard_session_slot(struct amb_shard *shard, uint32_t index);
