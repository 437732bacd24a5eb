/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/forward.h"

#include "broker/delivery/advance.h"
#include "broker/delivery/lend.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/sift.h"
#include "broker/delivery/spill.h"
#include "broker/ingest/route.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/history.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"

#define SETTLE_LOOKS 32u /* looks in forward_settle are cheap: so many count as one */

/* Deliveries and looks at readers so far. */
static inline uint64_t forward_done(const struct amb_shard *shard)
{
    return amb_stat_get(&shard->stats->batches_out) + shard->forward.looks;
}

/* This turn's, or this priority's, are used up. */
static inline bool forward_is_over(const struct amb_shard *shard)
{
    return forward_done(shard) >= shard->forward.upto;
}

/* The topic's slice of them begins. */
static inline void forward_begin_slice(struct amb_shard *shard)
{
    uint64_t upto = forward_done(shard) + AMB_FORWARD_SLICE;
    shard->forward.slice = upto < shard->forward.upto ? upto : shard->forward.upto;
}

/* The walk is cut short at that reader, who is the first when it goes on, over `left` readers. A
 * mark that came meanwhile makes it a walk over all. */
static void walk_cut(struct amb_walk *walk, struct amb_list_node *at, uint32_t left)
{
    amb_list_remove(&walk->cursors);
    amb_list_insert_before(at, &walk->cursors);
    walk->unwalked = walk->unwalked == AMB_WALK_ALL ? AMB_WALK_ALL : left;
}

/* Has it used up its credit, or has its link no room? Then its session wakes it: no message is
 * small enough for it meanwhile. */
static bool cursor_may_park(const struct amb_cursor *cursor)
{
    if (amb_list_is_empty(&cursor->stalled) || cursor->is_picky || cursor->topic->has_ttl ||
        cursor->hold.slow == AMB_SLOW_DISCONNECT || cursor->hold.spills ||
        cursor->hold.is_replaying) {
        return false;
    }
    return !amb_session_has_room(cursor->sub->session) ||
           !amb_subscription_has_credit(cursor->sub, 1, 1);
}

/* A slice of the walk. False: some are left. */
static bool forward_walk(struct amb_topic *topic, struct amb_walk *walk)
{
    struct amb_shard *shard = topic->shard;
    uint32_t left = walk->unwalked == AMB_WALK_NONE  ? 0
                    : walk->unwalked == AMB_WALK_ALL ? walk->count
                                                     : walk->unwalked;
    walk->unwalked = AMB_WALK_NONE;
    struct amb_list_node *next;
    for (struct amb_list_node *node = walk->cursors.next; node != &walk->cursors && left > 0;
         node = next) {
        if (__builtin_expect(forward_done(shard) >= shard->forward.slice, 0)) {
            walk_cut(walk, node, left);
            return false;
        }
        left--;
        shard->forward.looks++;
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, in_walk);
        amb_advance(topic, cursor);
        next = node->next;
        if (cursor_may_park(cursor)) {
            amb_cursor_park(cursor);
        } else {
            amb_cursor_sort(cursor, amb_cursor_has_next(cursor));
        }
    }
    return true;
}

/* This turn's number: a turn is counted when it ends. */
static inline uint64_t forward_turn(const struct amb_shard *shard)
{
    return amb_stat_get(&shard->stats->turns) + 1;
}

/* The consequences of how far the readers have come. It may look at each of them once more, and is
 * charged as if it did; so not after each slice. */
static void forward_settle(struct amb_topic *topic)
{
    topic->walks.settled_turn = forward_turn(topic->shard);
    topic->shard->forward.looks += 1 + topic->cursor_count / SETTLE_LOOKS;
    if (amb_topic_is_home(topic)) {
        amb_lend_walk(topic);
        if (__builtin_expect(topic->spill.readers != 0, 0)) {
            amb_spill_walk(topic);
        }
        amb_route_grants(topic);
        amb_topic_trim(topic);
        if (topic->history.retains) {
            amb_history_settle(topic);
        }
    } else {
        if (__builtin_expect(topic->spill.readers != 0, 0)) {
            amb_spill_walk(topic);
        }
        amb_topic_trim(topic);
        amb_lend_report(topic);
    }
}

/* Slices of both walks. False: some of its readers are left, and its caller puts it back into a
 * list. */
static bool forward_topic(struct amb_topic *topic)
{
    bool is_whole = forward_walk(topic, &topic->walks.keeping_up);
    if (amb_list_is_empty(&topic->walks.behind.cursors)) {
        topic->walks.behind.unwalked = AMB_WALK_NONE;
    } else {
        forward_begin_slice(topic->shard);
        is_whole = forward_walk(topic, &topic->walks.behind) && is_whole;
    }
    if (is_whole || topic->walks.settled_turn != forward_turn(topic->shard)) {
        forward_settle(topic);
    }
    return is_whole;
}

/* One of its readers has waited for steps of its filter. */
static void forward_sifted(struct amb_topic *topic)
{
    topic->walks.keeping_up.unwalked = topic->walks.behind.unwalked = AMB_WALK_ALL;
    topic->shard->forward.slice = topic->shard->forward.upto;
    if (!forward_topic(topic) && amb_list_is_empty(&topic->walks.dirty)) {
        amb_list_push_back(topic->walks.dirty_list, &topic->walks.dirty);
    }
}

/* The topics of one priority, slice by slice: those with few readers do not wait for those with
 * many. Those left are the first of it in the next turn. */
static unsigned forward_marked(struct amb_shard *shard, struct amb_list_node *marked)
{
    unsigned done = 0;
    struct amb_list_node *node;
    while (!forward_is_over(shard) && (node = amb_list_pop_front(marked)) != NULL) {
        struct amb_topic *topic = AMB_CONTAINER_OF(node, struct amb_topic, walks.dirty);
        forward_begin_slice(shard);
        if (!forward_topic(topic)) {
            amb_list_remove(&topic->walks.dirty);
            amb_list_push_back(marked, &topic->walks.dirty);
        }
        done++;
    }
    while (!amb_list_is_empty(marked)) {
        struct amb_topic *topic = AMB_CONTAINER_OF(marked->prev, struct amb_topic, walks.dirty);
        amb_list_remove(&topic->walks.dirty);
        amb_list_push_front(topic->walks.dirty_list, &topic->walks.dirty);
    }
    return done;
}

/* High ones first. They leave a part of the turn to each lower priority that has topics to walk.
 * Else readers that are always behind in high ones would stop the topics of strangers. */
static unsigned forward_all(struct amb_shard *shard)
{
    struct amb_list_node marked[AMB_PRIORITIES];
    unsigned done = 0, lower = 0;
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        /* Topics marked during the walk are the next walk's. */
        amb_list_init(&marked[rank]);
        amb_list_move(&shard->forward.dirty[rank], &marked[rank]);
        lower += !amb_list_is_empty(&marked[rank]);
    }
    uint64_t end = forward_done(shard) + AMB_FORWARD_TURN;
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        if (amb_list_is_empty(&marked[rank])) {
            continue;
        }
        lower--;
        /* One reader may go past what was left, so each begins with its part, whatever was done. */
        uint64_t least = forward_done(shard) + AMB_FORWARD_PART;
        shard->forward.upto = end - (uint64_t)lower * AMB_FORWARD_PART;
        shard->forward.upto = shard->forward.upto < least ? least : shard->forward.upto;
        done += forward_marked(shard, &marked[rank]);
    }
    return done;
}

static bool forward_has_none(const struct amb_shard *shard)
{
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        if (!amb_list_is_empty(&shard->forward.dirty[rank])) {
            return false;
        }
    }
    return true;
}

unsigned amb_forward_run(struct amb_shard *shard)
{
    amb_sift_begin(shard);
    shard->forward.looks = 0;
    unsigned done = forward_has_none(shard) ? 0 : forward_all(shard);
    if (__builtin_expect(!amb_list_is_empty(&shard->sift.waiting), 0)) {
        shard->forward.upto =
            forward_done(shard) + AMB_FORWARD_PART; /* The others' slices do not count. */
        done += amb_sift_serve(shard, forward_sifted);
    }
    return done;
}
