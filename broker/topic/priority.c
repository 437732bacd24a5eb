/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/priority.h"

#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"

void amb_priority_enter(struct amb_topic *topic)
{
    struct amb_topic *main = topic->kin.main;
    if (main == NULL) {
        return;
    }
    amb_list_push_back(&main->kin.ring, &topic->kin.ring);
    if (amb_topic_is_home(topic)) {
        main->kin.counts = topic->kin.counts = true;
        topic->log.above = main->log.next_seq - 1 + main->log.above;
    }
}

static bool has_same_owner(const struct amb_cursor *a, const struct amb_cursor *b)
{
    return a->sub == b->sub && a->queue == b->queue;
}

static bool join_in(struct amb_cursor *cursor, struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        struct amb_cursor *other = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (other != cursor && has_same_owner(cursor, other)) {
            cursor->is_picky = other->is_picky = true;
            amb_cursor_wake(other);
            amb_list_push_back(&other->kin, &cursor->kin);
            return true;
        }
    }
    return false;
}

void amb_priority_join(struct amb_cursor *cursor)
{
    struct amb_topic *topic = cursor->topic->privates.namesake;
    topic = topic != NULL ? topic : cursor->topic;
    AMB_LIST_FOR_EACH (node, &topic->kin.ring) {
        struct amb_topic *kin = AMB_CONTAINER_OF(node, struct amb_topic, kin.ring);
        bool has_joined = join_in(cursor, kin);
        AMB_LIST_FOR_EACH (private, &kin->privates.all) {
            has_joined = has_joined || join_in(cursor, AMB_CONTAINER_OF(private, struct amb_topic,
                                                                        privates.node));
        }
        if (has_joined) {
            return; /* Its others know each other. */
        }
    }
}

static unsigned rank_of(const struct amb_cursor *cursor)
{
    return amb_priority_rank(cursor->topic->priority);
}

bool amb_priority_is_outranked(const struct amb_cursor *cursor)
{
    AMB_LIST_FOR_EACH (node, &cursor->kin) {
        const struct amb_cursor *other = AMB_CONTAINER_OF(node, struct amb_cursor, kin);
        if (rank_of(other) < rank_of(cursor) && amb_cursor_has_next(other)) {
            return true;
        }
    }
    return false;
}
