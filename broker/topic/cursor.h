/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors: the places of local readers in a topic. A cursor is in one of its topic's two walks:
 * those that keep up, and those that are behind. Or it is parked: then no walk comes to it until it
 * is woken.
 *
 * Threads: the topic's worker. Memory: a cursor belongs to its subscription or queue.
 */
#pragma once

#include "broker/topic/state/cursor.h"
#include "broker/topic/topic.h"

struct amb_begun;
struct amb_queue;
struct amb_subscription;

/* A subscription's place in one topic. */
struct amb_cursor {
    struct amb_list_node of_topic, of_sub;
    struct amb_list_node in_walk; /* in one of its topic's walks; empty: parked */
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

/* Starts reading. At home: from begun->position; of a shadow: with begun->seq, which has not been
 * lent yet. */
void amb_cursor_attach(struct amb_cursor *cursor, struct amb_topic *topic,
                       struct amb_subscription *sub, enum amb_slow slow, int64_t block_limit_ns,
                       const struct amb_begun *begun);
/* No walk comes to it until it is woken. It is not parked yet. */
void amb_cursor_park(struct amb_cursor *cursor);
/* Parked or not: the next walk comes to it. */
void amb_cursor_wake(struct amb_cursor *cursor);
/* It is not parked: from here on in the walk of those that keep up, or that are behind. */
void amb_cursor_sort(struct amb_cursor *cursor, bool is_behind);
/* Its policy is spill, or is not any more. */
void amb_cursor_spill(struct amb_cursor *cursor, bool spills);
/* The entry that it reads next, if position is below the log's end or it has a prelude. NULL: the
 * prelude has to be recalled first (recall.h). */
struct amb_entry *amb_cursor_entry(const struct amb_cursor *cursor);
/* That has been read, or left out. */
void amb_cursor_advance(struct amb_cursor *cursor);
/* It has come to its end, or goes: a cursor that gave way to it is walked again. */
void amb_cursor_pass_on(const struct amb_cursor *cursor);
/* Harmless if it is not attached. */
void amb_cursor_detach(struct amb_cursor *cursor);
/* Walks are to come to all of the topic's from here on. */
void amb_cursor_unpark_all(struct amb_topic *topic);
