/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/recall.h"

#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"

/* At home: up to that many more. */
static void slice_read(struct amb_prelude *prelude, struct amb_topic *topic, uint32_t max)
{
    struct amb_entry *entry;
    uint64_t bytes = 0;
    prelude->next = prelude->count = 0;
    if (topic->keys == NULL) { /* A reload has ended them, and the slice that they kept. */
        prelude->is_over = true;
        return;
    }
    for (uint32_t i = 0; i < max && bytes < AMB_PRELUDE_BYTES; i++) {
        enum amb_status status = amb_keys_read(topic->keys, &prelude->from, prelude->upto, &entry);
        if (status == AMB_OK) {
            prelude->entries[prelude->count++] = entry;
            bytes += amb_entry_charge(entry);
        } else if (status == AMB_ENOMEM) {
            prelude->missed++;
        } else {
            prelude->is_over = true;
            return;
        }
    }
}

/* The slice is for another worker. An entry that it cannot be lent is missed. */
static void slice_lend(struct amb_prelude *prelude, struct amb_shard *home)
{
    uint32_t lent = 0;
    for (uint32_t i = 0; i < prelude->count; i++) {
        struct amb_entry *shadow = amb_entry_lend(prelude->entries[i], home);
        amb_entry_unref(prelude->entries[i], home);
        if (shadow != NULL) {
            prelude->entries[lent++] = shadow;
        } else {
            prelude->missed++;
        }
    }
    prelude->count = lent;
}

static void cursor_expect(struct amb_cursor *cursor)
{
    if (amb_prelude_entry(cursor->recall.prelude) != NULL) {
        cursor->loss.expected_seq = amb_prelude_seq(cursor->recall.prelude);
    }
}

static void prelude_came(struct amb_mail *mail, void *owner)
{
    struct amb_prelude *prelude = AMB_CONTAINER_OF(mail, struct amb_prelude, mail);
    amb_list_remove(&prelude->of_shard);
    prelude->is_asked = false;
    if (prelude->cursor == NULL) {
        amb_prelude_free(&prelude, owner);
        return;
    }
    cursor_expect(prelude->cursor);
    amb_topic_mark(prelude->cursor->topic);
}

/* At the topic's home. */
static void prelude_asked(struct amb_mail *mail, void *owner)
{
    struct amb_shard *home = owner;
    struct amb_prelude *prelude = AMB_CONTAINER_OF(mail, struct amb_prelude, mail);
    struct amb_topic *topic = amb_shard_topic(home, prelude->topic);
    if (topic == NULL) {
        prelude->is_over = true; /* It has gone, and the slice that it kept with it. */
    } else {
        slice_read(prelude, topic, prelude->wanted);
        slice_lend(prelude, home);
    }
    amb_mail_post(&prelude->reader->inbox, &prelude->mail, prelude_came);
}

static void prelude_ask(struct amb_cursor *cursor, uint32_t wanted)
{
    struct amb_prelude *prelude = cursor->recall.prelude;
    struct amb_topic *topic = cursor->topic;
    struct amb_shard *reader = topic->shard;
    prelude->cursor = cursor;
    prelude->reader = reader;
    prelude->topic = topic->id;
    prelude->wanted = wanted;
    prelude->is_asked = true;
    amb_list_push_back(&reader->preludes.waiting, &prelude->of_shard);
    amb_mail_post(&reader->peers[topic->home]->inbox, &prelude->mail, prelude_asked);
}

bool amb_recall(struct amb_cursor *cursor, uint64_t max)
{
    struct amb_prelude *prelude = cursor->recall.prelude;
    struct amb_topic *topic = cursor->topic;
    if (prelude->is_asked) {
        return false;
    }
    amb_assert(prelude->next == prelude->count);
    bool is_home = amb_topic_is_home(topic);
    if (!prelude->is_over && !is_home) {
        prelude_ask(cursor, max < AMB_PRELUDE_SLICE ? (uint32_t)max : AMB_PRELUDE_SLICE);
        return false;
    }
    if (!prelude->is_over) {
        slice_read(prelude, topic, 1);
        cursor_expect(cursor);
    }
    if (prelude->is_over && prelude->count == 0) {
        cursor->loss.expected_seq = cursor->recall.upto - prelude->missed;
        amb_prelude_free(&cursor->recall.prelude, topic->shard);
    }
    return true;
}

void amb_recall_let_go(struct amb_cursor *cursor)
{
    struct amb_prelude *prelude = cursor->recall.prelude;
    if (prelude == NULL || amb_prelude_entry(prelude) == NULL) {
        return;
    }
    prelude->from = amb_prelude_entry(prelude)->first_seq;
    prelude->is_over = false;
    amb_prelude_drop(prelude, cursor->topic->shard);
}

static bool slice_is_leased(const struct amb_prelude *prelude)
{
    bool is_leased = false;
    for (uint32_t i = prelude->next; i < prelude->count; i++) {
        is_leased = is_leased || prelude->entries[i]->is_leased;
    }
    return is_leased;
}

void amb_recall_keep(struct amb_cursor *cursor, struct amb_prelude **place)
{
    struct amb_prelude *prelude = cursor->recall.prelude;
    if (prelude == NULL || amb_prelude_entry(prelude) == NULL) {
        return;
    }
    if (*place == NULL && !slice_is_leased(prelude)) {
        *place = prelude;
        prelude->kept = place;
    }
    if (*place != prelude) {
        amb_recall_let_go(cursor);
    }
}
