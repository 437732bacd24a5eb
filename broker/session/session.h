/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one client's life on its worker. It has a link, up to AMB_HANDLES_MAX publishers and
 * as many subscriptions, and knows which segments its client has mapped.
 *
 * The README of this room has a session's states, and the function of each change. Quarantined: the
 * client's process may still read deliveries in place and its ring, and write its leases. They stay
 * until the control thread has seen the process end.
 *
 * Threads: the shard's worker. Memory: one allocation; made and freed by
 * broker/worker/session_life.h.
 */
#pragma once

#include "broker/base/heap_account.h"
#include "broker/session/path.h"
#include "broker/session/session_names.h"
#include "broker/shard/book.h"
#include "broker/shard/purse.h"
#include "broker/shard/sifter.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"
#include "wire/base/rhythm.h"
#include "wire/base/status.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SESSION_SEGMENTS_MAX 256u /* mapped by one client; beyond it deliveries are copied */
#define AMB_SESSION_QUEUED_MAX 64u    /* frames that wait in a link */
#define AMB_SESSION_QUEUED_BYTES_MAX (UINT64_C(4) << 20)
/* Receipts are not held back by the two above. Beyond this the client must read: one that takes
 * nothing for so long does not. A worker that had no CPU for a while answers at once for all that
 * others have taken meanwhile. That is no fault of the client's; it is bounded all the same. */
#define AMB_SESSION_RECEIPTS_MAX 16384u
#define AMB_SESSION_RECEIPTS_BURST (8 * AMB_SESSION_RECEIPTS_MAX)
#define AMB_SESSION_DEAF_NS AMB_NS_PER_SEC

struct amb_party;
struct amb_prelude;
struct amb_publisher;
struct amb_segment;
struct amb_shard;
struct amb_subscription;

enum amb_session_state {
    AMB_SESSION_OPEN,
    AMB_SESSION_CLOSING,
    AMB_SESSION_QUARANTINED,
};

enum amb_mapping_state {
    AMB_MAPPING_ASKED,   /* the descriptor is on its way */
    AMB_MAPPING_READY,   /* SEG_READY has come */
    AMB_MAPPING_REFUSED, /* the client cannot map it: copies */
    AMB_MAPPING_RETIRED, /* gone, while the descriptor was on its way */
};

struct amb_mapping {
    uint64_t segment;
    enum amb_mapping_state state;
};

/*
 * Where the last opening of a handle left off. The next one of that handle goes on from there. So a
 * counter or a frame of the former, on its way yet, names nothing of the latter.
 */
struct amb_past {
    uint64_t batches, bytes, window; /* of a publisher */
    uint64_t delivered;              /* of a subscription */
};

#define AMB_HANDLES_EACH 16u

/* Some handles of a session: most sessions use few. It stays where it is until the session ends. */
struct amb_handles {
    struct amb_publisher *publishers[AMB_HANDLES_EACH];
    struct amb_subscription *subscriptions[AMB_HANDLES_EACH];
    struct amb_past past[AMB_HANDLES_EACH];
};

/* Counters that its client is to be told, where a flush is a system call: worker/tell.h. */
struct amb_session_word {
    bool has_news;    /* set since the last flush, */
    bool is_new;      /* ... and since the last turn */
    bool is_urgent;   /* ... also one that is no receipt */
    bool is_held;     /* receipts, kept back until due_ns */
    bool was_alone;   /* the last flush had counters alone, at told_ns */
    uint32_t replies; /* such flushes in a row that a frame followed soon */
    int64_t told_ns, due_ns;
    struct amb_rhythm flow; /* of receipts */
};

/* Room that some of its readers lack in its user's quota: reader/lazy.h. */
struct amb_session_lack {
    struct amb_list_node node; /* of shard->lazy.lacking */
    uint64_t bytes;            /* the least that one of them wants */
    int64_t due_ns;            /* the next time to ask */
};

struct amb_session {
    struct amb_shard *shard;
    uint32_t index, generation;
    uint64_t secret;
    uint64_t client_id; /* the control thread's name for it */
    enum amb_session_state state;
    struct amb_link *link; /* NULL before it is attached and after it is gone */
    bool is_link_down;
    const char *broken; /* the rule that its client has broken: why the link goes down */
    bool is_watched;    /* the link need not be polled before the worker's epoll tells of an edge */
    bool has_edge;      /* ... of segments that it has */
    uint32_t counters_slot; /* of its numbers: broker/observe; 0: none */
    uint32_t user;          /* its client's: user.h */
    bool is_on_host;        /* its client came by a Unix socket */
    bool may_map;
    bool may_map_gpu; /* trusted with all of a device's pool */
    uint32_t tenant;  /* it maps trust groups of that one alone: */
    uint64_t maps;    /* a bit for each that its rights cover; trust_group.h */
    struct amb_handles *handles[AMB_HANDLES_MAX / AMB_HANDLES_EACH]; /* NULL: none was used yet */
    uint32_t openings; /* counts publishers ever opened: names one of a reused handle */
    struct amb_list_node live;
    struct amb_list_node clearing; /* of shard->clearing.sessions: its deliveries are given up */
    struct amb_list_node heat;     /* of shard->poll.warm, cold or dormant */
    uint32_t idle_turns;           /* since something came or went, while warm */
    struct amb_session_word word;
    bool is_cold;
    bool is_dormant;              /* cold, and its link stays armed: the worker's epoll tells */
    bool has_bell;                /* its link's descriptor is in the worker's epoll */
    struct amb_list_node stalled; /* struct amb_cursor.stalled */
    struct amb_session_lack lack; /* some of these wait for that */
    struct amb_prelude *prelude;  /* of the one cursor that keeps its slice while the link is
                                     full; or NULL */
    struct amb_sifter sifter;     /* the steps that its filters may cost */
    struct amb_list_node publisher_list; /* struct amb_publisher.node */
    struct amb_list_node subscription_list;
    uint32_t takers;  /* subscriptions that are members of queues */
    uint32_t formers; /* former deliveries of the takers: former.h */
    uint32_t tallies; /* deliveries not given back whose publisher waits: tally.h */
    struct amb_session_names names;
    struct amb_mapping mappings[AMB_SESSION_SEGMENTS_MAX];
    uint32_t mapping_count;
    uint8_t mapping_at[AMB_SESSION_SEGMENTS_MAX]; /* by segment, modulo: where it was seen last */
    uint64_t mapped_bytes;                        /* delivered in place and not given back, */
    uint64_t mapped_max;        /* at most; less for a process that holds something in quarantine */
    uint64_t mapped_host_bytes; /* of mapped_bytes, in host memory, */
    uint64_t mapped_host_max;   /* at most: so that no reader alone can hold all of it */
    uint32_t mapped_parts;      /* of mapped_bytes, slots of leases: segment->slot_parts of each */
    struct amb_party *party;    /* that is charged; or NULL */
    struct amb_purse *purse;    /* of its user's account, a reference; NULL: there are no quotas */
    /* Its party's, on this worker, until the session is destroyed; NULL: nobody is charged. */
    struct amb_entry_share *entry_share;
    uint32_t fetches;                  /* answers to FETCH that wait in the link */
    uint64_t prepared_bytes;           /* of its publishers' buffers for messages still to come */
    uint64_t reserved;                 /* of their windows */
    size_t entries_reserved;           /* for their batches */
    int64_t lapsed_ns;                 /* when one of these was last taken back unused; 0: never */
    struct amb_list_node quarantined;  /* struct amb_quarantined of quarantine.h */
    bool keep_held;                    /* when closing: deliveries held in place stay */
    struct amb_link_waste *ring_waste; /* of its ring, if that was not read to its end; or NULL */
    struct amb_heap_account heap;
    int64_t trimmed_ns;         /* when tables that are not used were looked for */
    bool is_over_heap;          /* it is ended for that */
    struct amb_lease_book book; /* segments that its client writes, and its commits */
    void (*closed)(void *arg, uint64_t quarantined_bytes); /* or NULL */
    void *closed_arg;
    uint64_t settled;      /* frames that had to wait in the link and wait no more */
    uint64_t settled_seen; /* ... when it was last asked whether the client reads, */
    int64_t settled_ns;    /* and when that had changed */
    struct {
        struct amb_paths in, out;
    } paths; /* published, delivered */
    /* counters; of what was published, paths.in has the sums */
    uint64_t msgs_out, bytes_out, frames_ignored;
};

/* Registers it with the shard. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_session_create(struct amb_shard *shard, uint32_t index,
                                                  uint32_t generation, uint64_t secret,
                                                  uint64_t client_id, struct amb_session **out);
/* Without link, publishers, subscriptions and quarantine. */
void amb_session_destroy(struct amb_session **session);
/* Those of handle, made at its first use. NULL: no memory. handle < AMB_HANDLES_MAX. */
struct amb_handles *amb_session_handles(struct amb_session *session, uint32_t handle);
static inline struct amb_past *amb_session_past(struct amb_session *session, uint32_t handle)
{
    struct amb_handles *handles = amb_session_handles(session, handle);
    return handles == NULL ? NULL : &handles->past[handle % AMB_HANDLES_EACH];
}
/* The open one of handle, or NULL. handle < AMB_HANDLES_MAX. */
static inline struct amb_publisher *amb_session_publisher(const struct amb_session *session,
                                                          uint32_t handle)
{
    const struct amb_handles *handles = session->handles[handle / AMB_HANDLES_EACH];
    return handles == NULL ? NULL : handles->publishers[handle % AMB_HANDLES_EACH];
}
static inline struct amb_subscription *amb_session_subscription(const struct amb_session *session,
                                                                uint32_t handle)
{
    const struct amb_handles *handles = session->handles[handle / AMB_HANDLES_EACH];
    return handles == NULL ? NULL : handles->subscriptions[handle % AMB_HANDLES_EACH];
}
/* The handle has been used before: amb_session_handles answered. */
static inline void amb_session_set_publisher(struct amb_session *session, uint32_t handle,
                                             struct amb_publisher *publisher)
{
    session->handles[handle / AMB_HANDLES_EACH]->publishers[handle % AMB_HANDLES_EACH] = publisher;
}
static inline void amb_session_set_subscription(struct amb_session *session, uint32_t handle,
                                                struct amb_subscription *subscription)
{
    session->handles[handle / AMB_HANDLES_EACH]->subscriptions[handle % AMB_HANDLES_EACH] =
        subscription;
}
/* EPROTO, and why, for the client and the log: a sentence without numbers. */
enum amb_status amb_session_broken(struct amb_session *session, const char *why);
/* ELIMIT, once its use of the broker's heap is past its limit and nothing can be refused any more.
 * Then the session ends, and its client is told why. */
void amb_session_end_heap(struct amb_session *session);
/* Bytes that its client may still hold in place, of host memory or of a GPU's. */
static inline uint64_t amb_session_map_room(const struct amb_session *session, bool is_host)
{
    uint64_t left = session->mapped_bytes < session->mapped_max
                        ? session->mapped_max - session->mapped_bytes
                        : 0;
    uint64_t host = session->mapped_host_bytes < session->mapped_host_max
                        ? session->mapped_host_max - session->mapped_host_bytes
                        : 0;
    uint64_t room = is_host && host < left ? host : left;
    if (__builtin_expect(session->purse != NULL, 0)) {
        uint64_t user = amb_purse_map_room(session->purse);
        room = user < room ? user : room;
    }
    return room;
}
/* By value: NULL if that session is gone. */
struct amb_session *amb_session_find(struct amb_shard *shard, uint32_t index, uint32_t generation);

/*
 * A worker with many sessions asks few of them every turn. These are the warm ones, which something
 * came from or went to lately, and some of the cold ones in turn. Dormant ones are not asked at
 * all: their links are armed. A caller that hands a link something says so here, or it leaves only
 * when its session's turn comes.
 */
void amb_session_warm(struct amb_session *session);
static inline void amb_session_stir(struct amb_session *session)
{
    session->idle_turns = 0;
    if (session->is_cold) {
        amb_session_warm(session);
    }
}
/* Nothing has come or gone for a while. It becomes dormant where its link can be armed and has a
 * bell. */
void amb_session_cool(struct amb_session *session);
/* Can it be told anything? */
static inline bool amb_session_is_up(const struct amb_session *session)
{
    return session->link != NULL && !session->is_link_down;
}
/* Does anybody here wait for a counter of its client's? Then the client shall wake a worker that
 * sleeps when it moves one. */
bool amb_session_wants_flow(const struct amb_session *session);
/* Sets one of our counters on its link. */
void amb_session_flow(struct amb_session *session, enum amb_flow_kind kind, uint32_t handle,
                      uint64_t value);

/* May another frame be handed to the link now? */
bool amb_session_has_room(const struct amb_session *session);
/* Credit or room has come: a cursor that waits for it is walked again. */
void amb_session_unstall(struct amb_session *session);

/*
 * May a delivery name this segment? The first question asks the control thread to hand it over.
 * REFUSED also where it cannot be asked for.
 */
enum amb_mapping_state amb_session_mapping_of(struct amb_session *session,
                                              struct amb_segment *segment);
/* SEG_READY, or the control thread's word that the client refused. */
void amb_session_mapping(struct amb_session *session, uint64_t segment,
                         enum amb_mapping_state state);
/* The segment is gone. True if the client has mapped it and is to be told; else it is told when it
 * says that it has. */
bool amb_session_retire_segment(struct amb_session *session, uint64_t segment);
bool amb_session_is_retired(struct amb_session *session, uint64_t segment);
/* SEG_GONE. Of a segment that it was not told to drop: it is never offered that one again. */
void amb_session_unmapped(struct amb_session *session, uint64_t segment);
/* True if it was there. */
bool amb_session_forget_segment(struct amb_session *session, uint64_t segment);
