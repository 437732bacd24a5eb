/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor and its parts, each of which belongs to the file that it names.
 *
 * Threads: the topic's worker. Memory: a cursor belongs to its subscription or queue.
 */
#pragma once

#include "broker/topic/topic.h"

struct amb_filter;
struct amb_prelude;
struct amb_queue;
struct amb_sifter;
struct amb_subscription;

/* cursor.c, hold.c: its policy, and whether it holds publishers back. */
struct amb_cursor_hold {
    struct amb_list_node
        blocked;        /* of shard->forward.blocked: holding, behind, with a time limit */
    int64_t limit_ns;   /* how long it may hold; INT64_MAX: for ever */
    int64_t since_ns;   /* it is behind */
    enum amb_slow slow; /* its policy, */
    bool holds;         /* block, which holds publishers back, */
    bool spills;        /* or spill: amb_cursor_spill */
    bool is_dropping;   /* its time limit has passed: does not hold until it has caught up */
    bool is_replaying;  /* reads history: does not hold until it is near the end */
};

/* pick.c, slow.c: messages that it does not get. */
struct amb_cursor_loss {
    uint64_t expected_seq; /* of the next message, or those up to it are lost */
    uint64_t expired;      /* of those that are lost: whose time was over */
    uint32_t looked;       /* the last look of its subscription that has come to it: slow.h */
    bool is_late;          /* messages missing before its first one were gone when it came */
    bool is_unknown;       /* ... cannot be known */
};

/* Where a cursor with a filter has looked last. */
struct amb_cursor_blob {
    uint64_t of_seq;    /* first_seq of the entry */
    uint32_t index, at; /* of a message, and where its blob is */
    uint64_t run_seq;   /* from here on */
    uint32_t run_end;   /* ... up to this index messages pass */
};

/* pick.c, sift.c */
struct amb_cursor_pick {
    const struct amb_filter *filter; /* its filter; NULL: everything */
    struct amb_sifter *sifter;       /* the sifter whose steps that takes: its session's, its
                                      * queue's */
    struct amb_cursor_blob blob;
};

/* recall.c */
struct amb_cursor_recall {
    struct amb_prelude *prelude; /* is read before the log; NULL: no more of it */
    uint64_t upto;               /* all before this number, of which nothing is lost */
};

/* A subscription's place in one topic. */
struct amb_cursor {
    struct amb_list_node of_topic, of_sub;
    struct amb_list_node due;     /* in one of its topic's walks; empty: parked */
    struct amb_list_node stalled; /* in its session's list: waits for credit or room */
    struct amb_topic *topic;
    struct amb_subscription *sub; /* NULL: a queue's */
    struct amb_queue *queue;      /* NULL: a subscription's */
    uint64_t position;            /* of the next entry to deliver */
    uint32_t within;              /* index of its first message that is still to be delivered */
    bool is_behind;               /* in that walk: has more to read, is new, or was just woken */
    bool is_picky;                /* may leave messages out: pick.h */
    bool is_named;                /* its client knows the topic's name */
    uint64_t counts_from;         /* its deliveries from this sequence on are tallied: tally.h */
    struct amb_list_node kin;     /* a ring: its owner's in the topic's other priorities */
    struct amb_cursor_hold hold;
    struct amb_cursor_loss loss;
    struct amb_cursor_pick pick;
    struct amb_cursor_recall recall;
};

static inline bool amb_cursor_has_next(const struct amb_cursor *cursor)
{
    return cursor->recall.prelude != NULL || cursor->position < cursor->topic->log.hi;
}

static inline bool amb_cursor_is_holding(const struct amb_cursor *cursor)
{
    return cursor->hold.holds && !cursor->hold.is_dropping && !cursor->hold.is_replaying;
}
