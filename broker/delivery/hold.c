/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/hold.h"

#include "broker/delivery/lend.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/base/clock.h"

/* From here on it may hold publishers back for so long. */
static void cursor_behind(struct amb_cursor *cursor)
{
    struct amb_shard *shard = cursor->topic->shard;
    if (amb_cursor_is_holding(cursor) && cursor->hold.since_ns == 0) {
        cursor->hold.since_ns = shard->now_ns;
        if (cursor->hold.limit_ns != INT64_MAX && amb_list_is_empty(&cursor->hold.blocked)) {
            amb_list_push_back(&shard->forward.blocked, &cursor->hold.blocked);
        }
    }
}

void amb_hold_wait(struct amb_cursor *cursor)
{
    if (cursor->hold.is_replaying && amb_lend_is_near(cursor->topic, cursor->position)) {
        cursor->hold.is_replaying = false;
        amb_topic_reader_changed(cursor->topic, &cursor->position);
    }
    cursor_behind(cursor);
}

void amb_hold_caught_up(struct amb_cursor *cursor)
{
    amb_hold_went_on(cursor);
    if (__builtin_expect(cursor->hold.is_dropping | cursor->hold.is_replaying, 0)) {
        cursor->hold.is_dropping = cursor->hold.is_replaying = false;
        amb_topic_reader_changed(cursor->topic, &cursor->position);
    }
}

int64_t amb_hold_expire(struct amb_shard *shard)
{
    int64_t next_ns = INT64_MAX;
    AMB_LIST_FOR_EACH_SAFE (node, &shard->forward.blocked) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, hold.blocked);
        int64_t deadline_ns = amb_deadline_ns(cursor->hold.since_ns, cursor->hold.limit_ns);
        if (deadline_ns <= shard->now_ns) {
            cursor->hold.is_dropping = true;
            amb_topic_reader_changed(cursor->topic, &cursor->position);
            amb_list_remove(&cursor->hold.blocked);
            amb_topic_mark(cursor->topic);
        } else if (deadline_ns < next_ns) {
            next_ns = deadline_ns;
        }
    }
    return next_ns;
}
