/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/topic_tail.h"

#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/replay.h"
#include "broker/topic/topic.h"

static void count_reader(uint64_t position, uint64_t *slowest)
{
    *slowest = position < *slowest ? position : *slowest;
}

/* A borrower gets everything in the next walk. Until then it is all of these readers there. */
static void count_lend(const struct amb_lend *lend, struct amb_topic_tail *tail)
{
    count_reader(lend->position, &tail->upto);
    if (lend->spilling > 0) {
        count_reader(lend->position, &tail->from);
    }
}

void amb_topic_tail(const struct amb_topic *topic, struct amb_topic_tail *out)
{
    out->from = out->upto = topic->log.hi;
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (!cursor->hold.is_replaying) {
            count_reader(cursor->position, cursor->hold.spills ? &out->from : &out->upto);
        }
    }
    for (unsigned i = 0; i < topic->lending.count; i++) {
        if (topic->lending.lends[i].subs > 0) {
            count_lend(&topic->lending.lends[i], out);
        }
    }
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        const struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        if (replay->is_near) {
            count_lend(&replay->lend, out);
        }
    }
    out->upto = out->upto < topic->log.lo ? topic->log.lo : out->upto;
    out->from = out->from < topic->log.lo ? topic->log.lo : out->from;
    out->from = out->from < out->upto ? out->from : out->upto;
}

uint64_t amb_topic_tail_bytes(const struct amb_topic *topic, const struct amb_topic_tail *tail)
{
    return amb_log_bytes_from(&topic->log, tail->from) -
           amb_log_bytes_from(&topic->log, tail->upto);
}

uint64_t amb_topic_msgs_from(const struct amb_topic *topic, uint64_t position)
{
    const struct amb_log *log = &topic->log;
    return position < log->hi ? log->next_seq - amb_log_at(log, position)->first_seq : 0;
}

bool amb_topic_is_over(const struct amb_topic *topic, const struct amb_topic_tail *tail)
{
    const struct amb_topic_rule *rule = topic->rule;
    return amb_log_bytes_from(&topic->log, tail->upto) > rule->max_bytes ||
           (rule->max_messages != 0 && amb_topic_msgs_from(topic, tail->upto) > rule->max_messages);
}

static void cursor_skip(struct amb_cursor *cursor, uint64_t position)
{
    if (cursor->position <= position) {
        cursor->position = position + 1;
        cursor->within = 0;
        if (!amb_list_is_empty(&cursor->kin) && !amb_cursor_has_next(cursor)) {
            amb_cursor_pass_on(cursor);
        }
    }
}

static void lend_skip(struct amb_lend *lend, uint64_t position, bool spilling)
{
    if (lend->position <= position && (!spilling || lend->spilling > 0)) {
        lend->position = position + 1;
    }
}

void amb_topic_skip(struct amb_topic *topic, uint64_t position, bool spilling)
{
    uint32_t count = amb_log_at(&topic->log, position)->count;
    topic->counts.msgs_dropped += count;
    amb_stat_add(&topic->shard->stats->msgs_dropped, count);
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (cursor->hold.spills == spilling && !cursor->hold.is_replaying) {
            cursor_skip(cursor, position);
        }
    }
    topic->spill.lost += spilling ? count : 0;
    for (unsigned i = 0; i < topic->lending.count; i++) {
        lend_skip(&topic->lending.lends[i], position, spilling);
    }
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        if (replay->is_near) {
            lend_skip(&replay->lend, position, spilling);
        }
    }
}
