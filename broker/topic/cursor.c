/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/cursor.h"

#include "broker/base/fault.h"
#include "broker/shard/shard.h"
#include "broker/topic/begin.h"
#include "broker/topic/log/log.h"
#include "broker/topic/log/prelude.h"

static struct amb_walk *walk_of(const struct amb_cursor *cursor)
{
    return cursor->is_behind ? &cursor->topic->walks.behind : &cursor->topic->walks.keeping_up;
}

void amb_cursor_park(struct amb_cursor *cursor)
{
    amb_list_remove(&cursor->in_walk);
    walk_of(cursor)->count--;
}

static void cursor_enter(struct amb_cursor *cursor, bool is_behind)
{
    cursor->is_behind = is_behind;
    amb_list_push_back(&walk_of(cursor)->cursors, &cursor->in_walk);
    walk_of(cursor)->count++;
}

void amb_cursor_sort(struct amb_cursor *cursor, bool is_behind)
{
    if (__builtin_expect(cursor->is_behind != is_behind, 0)) {
        amb_cursor_park(cursor);
        cursor_enter(cursor, is_behind);
    }
}

static void cursor_unpark(struct amb_cursor *cursor)
{
    if (amb_list_is_empty(&cursor->in_walk)) {
        cursor_enter(cursor, true);
    }
}

void amb_cursor_wake(struct amb_cursor *cursor)
{
    cursor_unpark(cursor);
    amb_topic_mark(cursor->topic);
}

void amb_cursor_unpark_all(struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        cursor_unpark(AMB_CONTAINER_OF(node, struct amb_cursor, of_topic));
    }
}

void amb_cursor_attach(struct amb_cursor *cursor, struct amb_topic *topic,
                       struct amb_subscription *sub, enum amb_slow slow, int64_t block_limit_ns,
                       const struct amb_begun *begun)
{
    cursor->topic = topic;
    cursor->sub = sub;
    cursor->hold.slow = slow;
    cursor->hold.holds =
        slow == AMB_SLOW_BLOCK || (AMB_FAULT(SPILL_HOLDS) && slow == AMB_SLOW_SPILL);
    cursor->is_picky = slow == AMB_SLOW_LATEST || slow == AMB_SLOW_DROP_NEWEST;
    cursor->hold.limit_ns = block_limit_ns;
    cursor->position = amb_topic_is_home(topic) ? begun->position : topic->log.hi;
    cursor->loss.expected_seq = begun->seq;
    cursor->counts_from = amb_topic_is_home(topic) ? topic->log.next_seq : 0;
    cursor->loss.is_late = begun->is_late;
    cursor->loss.is_unknown = begun->is_unknown;
    cursor->hold.is_replaying = cursor->position < topic->log.hi;
    cursor->recall.prelude = begun->prelude;
    if (cursor->recall.prelude != NULL) {
        cursor->recall.upto = begun->seq;
        cursor->loss.expected_seq = 0; /* Until its first message is there. */
        cursor->is_picky = true;
    }
    amb_list_init(&cursor->stalled);
    amb_list_init(&cursor->hold.blocked);
    amb_list_init(&cursor->kin);
    amb_list_push_back(&topic->cursors, &cursor->of_topic);
    topic->cursor_count++;
    amb_topic_reader_came(topic, cursor->position);
    amb_list_init(&cursor->in_walk);
    cursor_unpark(cursor);
    amb_cursor_spill(cursor, slow == AMB_SLOW_SPILL);
    if (cursor->hold.is_replaying || cursor->recall.prelude != NULL) {
        amb_topic_mark(topic);
    }
}

void amb_cursor_spill(struct amb_cursor *cursor, bool spills)
{
    cursor->topic->spill.readers += (uint32_t)spills - (uint32_t)cursor->hold.spills;
    cursor->hold.spills = spills;
}

struct amb_entry *amb_cursor_entry(const struct amb_cursor *cursor)
{
    return cursor->recall.prelude != NULL ? amb_prelude_entry(cursor->recall.prelude)
                                          : amb_log_at(&cursor->topic->log, cursor->position);
}

void amb_cursor_advance(struct amb_cursor *cursor)
{
    cursor->within = 0;
    if (cursor->recall.prelude == NULL) {
        cursor->position++;
        return;
    }
    amb_prelude_advance(cursor->recall.prelude, cursor->topic->shard);
    if (amb_prelude_entry(cursor->recall.prelude) != NULL) {
        cursor->loss.expected_seq = amb_prelude_seq(cursor->recall.prelude);
    }
}

void amb_cursor_pass_on(const struct amb_cursor *cursor)
{
    unsigned rank = amb_priority_rank(cursor->topic->priority);
    AMB_LIST_FOR_EACH (node, &cursor->kin) {
        const struct amb_cursor *other = AMB_CONTAINER_OF(node, struct amb_cursor, kin);
        if (amb_priority_rank(other->topic->priority) > rank && amb_cursor_has_next(other)) {
            amb_topic_mark(other->topic);
        }
    }
}

void amb_cursor_detach(struct amb_cursor *cursor)
{
    if (cursor->topic == NULL) {
        return;
    }
    if (__builtin_expect(!amb_list_is_empty(&cursor->kin), 0)) {
        amb_cursor_pass_on(cursor);
        amb_list_remove(&cursor->kin);
    }
    amb_list_remove(&cursor->of_topic);
    cursor->topic->cursor_count--;
    amb_topic_reader_went(cursor->topic, &cursor->position);
    if (!amb_list_is_empty(&cursor->in_walk)) {
        amb_cursor_park(cursor);
    }
    amb_list_remove(&cursor->of_sub);
    amb_list_remove(&cursor->stalled);
    amb_list_remove(&cursor->hold.blocked);
    bool has_next = amb_cursor_has_next(cursor);
    amb_prelude_free(&cursor->recall.prelude, cursor->topic->shard);
    amb_cursor_spill(cursor, false);
    if (has_next) {
        amb_topic_mark(cursor->topic); /* Entries that it held back may go. */
    }
    cursor->topic = NULL;
}
