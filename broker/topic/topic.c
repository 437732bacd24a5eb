/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/topic.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/count/counters_slots.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/retain.h"
#include "broker/topic/replay.h"
#include "broker/topic/trim.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum amb_status amb_topic_create(struct amb_shard *shard, const struct amb_config *config,
                                 uint32_t id, unsigned home, const char *name, size_t name_len,
                                 struct amb_topic **out)
{
    amb_assert(name_len <= AMB_TOPIC_MAX);
    struct amb_topic *topic = calloc(1, sizeof(*topic));
    if (topic == NULL) {
        return AMB_ENOMEM;
    }
    if (home == shard->index) {
        topic->lending.lends = calloc(shard->peer_count, sizeof(struct amb_lend));
        topic->lending.count = shard->peer_count;
        if (topic->lending.lends == NULL) {
            free(topic);
            return AMB_ENOMEM;
        }
    }
    topic->id = id;
    topic->home = home;
    topic->shard = shard;
    topic->name_len = (uint32_t)name_len;
    memcpy(topic->name, name, name_len);
    topic->rule = amb_config_topic(config, topic->name);
    topic->has_ttl = topic->rule->ttl_ns != AMB_CONFIG_TIME_FOREVER;
    topic->history.retains = home == shard->index && amb_topic_rule_retains(topic->rule);
    uint32_t keys = topic->rule->retain.keys;
    if (keys != 0 && amb_keys_create(shard, keys, topic->rule->max_bytes, home == shard->index,
                                     &topic->keys) != AMB_OK) {
        free(topic->lending.lends);
        free(topic);
        return AMB_ENOMEM;
    }
    topic->config = amb_config_ref(config);
    amb_log_init(&topic->log);
    amb_list_init(&topic->cursors);
    amb_topic_walks_init(&topic->walks);
    amb_topic_lending_init(&topic->lending);
    amb_topic_history_init(&topic->history);
    amb_topic_kin_init(&topic->kin);
    amb_topic_audience_init(&topic->audience);
    amb_topic_spill_init(&topic->spill);
    amb_topic_privates_init(&topic->privates);
    amb_topic_set_priority(topic, AMB_PRIORITY_NORMAL);
    *out = topic;
    return AMB_OK;
}

void amb_topic_set_priority(struct amb_topic *topic, enum amb_priority priority)
{
    topic->priority = priority;
    topic->walks.dirty_list = &topic->shard->forward.dirty[amb_priority_rank(priority)];
}

void amb_topic_clear(struct amb_topic *topic)
{
    amb_assert(amb_list_is_empty(&topic->cursors));
    amb_keys_destroy(&topic->keys);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&topic->audience.waiting)) != NULL) {
        amb_entry_unref(AMB_CONTAINER_OF(node, struct amb_entry, pending), topic->shard);
    }
    while (topic->log.lo < topic->log.hi) {
        amb_trim_pop(topic);
    }
    amb_list_remove(&topic->walks.dirty);
    amb_list_remove(&topic->history.timed);
    amb_list_remove(&topic->spill.node);
    amb_list_remove(&topic->privates.node);
    amb_list_remove(&topic->kin.ring);
}

void amb_topic_destroy(struct amb_topic **topic)
{
    struct amb_topic *t = *topic;
    if (t == NULL) {
        return;
    }
    *topic = NULL;
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&t->lending.replays)) != NULL) { /* Workers have ended. */
        struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        amb_topic_destroy(&replay->lend.shadow);
        free(replay);
    }
    amb_topic_clear(t);
    amb_counters_give_numbers(t->shard->counters, &t->counters_slot);
    amb_log_fini(&t->log);
    free(t->lending.lends);
    amb_config_unref(&t->config);
    free(t);
}

void amb_topic_mark_all(struct amb_topic *topic)
{
    amb_topic_mark(topic);
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        amb_topic_mark(AMB_CONTAINER_OF(node, struct amb_topic, privates.node));
    }
}

void amb_topic_mark(struct amb_topic *topic)
{
    topic->walks.keeping_up.unwalked = topic->walks.behind.unwalked = AMB_WALK_ALL;
    if (amb_list_is_empty(&topic->walks.dirty)) {
        amb_list_push_back(topic->walks.dirty_list, &topic->walks.dirty);
    }
}

/* A reader that there was no memory for was never counted. */
static uint32_t changed(uint32_t count, int32_t by)
{
    return by < 0 && count < (uint32_t)-by ? 0 : count + (uint32_t)by;
}

void amb_topic_count_lent(struct amb_topic *topic, struct amb_lend *lend, int32_t subs,
                          int32_t holding, int32_t spilling)
{
    uint32_t spilled = lend->spilling;
    lend->subs = changed(lend->subs, subs);
    lend->holding = changed(lend->holding, holding);
    lend->spilling = changed(lend->spilling, spilling);
    topic->spill.readers += lend->spilling - spilled;
    amb_topic_reader_changed(topic, &lend->position);
    if (lend->position < topic->log.hi) { /* Else it has held nothing back, and has nothing due. */
        amb_topic_mark(topic);
    }
}

static struct amb_slowest topic_find_slowest(const struct amb_topic *topic, bool holding_only)
{
    struct amb_slowest found = {.is_known = true};
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (!holding_only || amb_cursor_is_holding(cursor)) {
            amb_slowest_look(&found, &cursor->position);
        }
    }
    for (unsigned i = 0; i < topic->lending.count; i++) {
        const struct amb_lend *lend = &topic->lending.lends[i];
        if (lend->subs > 0 && (!holding_only || lend->holding > 0)) {
            amb_slowest_look(&found, &lend->position);
        }
    }
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        const struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        if (!holding_only || amb_replay_is_holding(replay)) {
            amb_slowest_look(&found, &replay->lend.position);
        }
    }
    return found;
}

static uint64_t topic_slowest(struct amb_topic *topic, bool holding_only)
{
    struct amb_slowest *slowest = holding_only ? &topic->slowest_holding : &topic->slowest;
    if (!amb_slowest_is_known(slowest)) {
        *slowest = topic_find_slowest(topic, holding_only);
    }
    uint64_t position = slowest->where == NULL ? topic->log.hi : slowest->position;
    return position < topic->log.lo ? topic->log.lo : position;
}

uint64_t amb_topic_holding_from(struct amb_topic *topic)
{
    return topic_slowest(topic, true);
}

uint64_t amb_topic_read_from(struct amb_topic *topic)
{
    return topic_slowest(topic, false);
}

static void check_slowest(const struct amb_topic *topic, const struct amb_slowest *slowest,
                          bool holding_only)
{
    const struct amb_slowest found = topic_find_slowest(topic, holding_only);
    amb_assert(!amb_slowest_is_known(slowest) || (slowest->where == NULL) == (found.where == NULL));
    amb_assert(!amb_slowest_is_known(slowest) || slowest->where == NULL ||
               slowest->position == found.position);
}

void amb_topic_assert(const struct amb_topic *topic)
{
    amb_log_check(&topic->log);
    check_slowest(topic, &topic->slowest, false);
    check_slowest(topic, &topic->slowest_holding, true);
}

void amb_topic_reader_came(struct amb_topic *topic, uint64_t position)
{
    if (!AMB_FAULT(SLOWEST_KEPT)) {
        amb_slowest_came(&topic->slowest, position);
        amb_slowest_came(&topic->slowest_holding, position);
    }
}

void amb_topic_reader_went(struct amb_topic *topic, const uint64_t *position)
{
    amb_slowest_went(&topic->slowest, position);
    amb_slowest_went(&topic->slowest_holding, position);
}

void amb_topic_reader_changed(struct amb_topic *topic, const uint64_t *position)
{
    amb_topic_reader_went(topic, position);
    amb_topic_reader_came(topic, *position);
}

uint64_t amb_topic_depth(const struct amb_topic *topic)
{
    return topic->rule->max_bytes < AMB_TOPIC_DEPTH ? topic->rule->max_bytes : AMB_TOPIC_DEPTH;
}

/* Do more entries or bytes follow that position than publishers may be ahead? */
static bool topic_is_deep(const struct amb_topic *topic, uint64_t position)
{
    uint64_t behind = topic->log.hi - position;
    return behind > 1 && (behind > AMB_TOPIC_DEPTH_ENTRIES ||
                          amb_log_bytes_from(&topic->log, position) > amb_topic_depth(topic));
}

bool amb_topic_any_grant(struct amb_topic *topic, struct amb_entry **out)
{
    if (topic->ungranted >= topic->log.hi) {
        return false;
    }
    *out = amb_log_at(&topic->log, topic->ungranted++);
    return true;
}

bool amb_topic_next_grant(struct amb_topic *topic, struct amb_entry **out)
{
    if (topic->ungranted >= topic->log.hi) {
        return false;
    }
    amb_assert(topic->ungranted >= topic->log.lo);
    /* Readers are looked at only where the whole log is deep. */
    if (topic->rule->full == AMB_FULL_BLOCK && topic_is_deep(topic, topic->log.lo) &&
        topic_is_deep(topic, amb_topic_holding_from(topic))) {
        return false;
    }
    *out = amb_log_at(&topic->log, topic->ungranted);
    topic->ungranted++;
    if (AMB_FAULT(GRANT_LOST) && topic->ungranted % 16 == 0) {
        return false;
    }
    return true;
}
