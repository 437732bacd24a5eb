/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/deadletter.h"

#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/codec/frame.h"
#include "wire/codec/props.h"
#include "wire/codec/topic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Up to here a copy costs less than what it would keep from others. */
#define DEADLETTER_COPY_MAX (UINT64_C(64) << 10)

struct letter {
    struct amb_message_view view;
    struct amb_record record;
    uint8_t blob[AMB_PROPS_MAX];
};

static void add_text(struct amb_props_writer *writer, const char *name, const char *text)
{
    if (amb_props_add(writer, name, text, strlen(text)) != AMB_OK) {
        amb_debug("a dead letter has no room for its %s", name);
    }
}

static void letter_write_props(struct letter *letter, const char *topic, uint64_t seq,
                               uint32_t deliveries, const char *reason)
{
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, letter->blob, sizeof(letter->blob));
    if (letter->view.props_len != 0) {
        memcpy(letter->blob, letter->view.props, letter->view.props_len);
        writer.len = letter->view.props_len;
    }
    char number[24];
    add_text(&writer, "$reason", reason);
    (void)snprintf(number, sizeof(number), "%" PRIu32, deliveries);
    add_text(&writer, "$deliveries", number);
    add_text(&writer, "$topic", topic);
    (void)snprintf(number, sizeof(number), "%" PRIu64, seq);
    add_text(&writer, "$seq", number);
    size_t padded = amb_props_padded((uint32_t)writer.len);
    memset(letter->blob + writer.len, 0,
           (padded < sizeof(letter->blob) ? padded : sizeof(letter->blob)) - writer.len);
    letter->record = (struct amb_record){
        .len = (uint32_t)letter->view.len,
        .flags = letter->view.flags,
        .props_len = (uint16_t)writer.len,
        .key_hash = letter->view.key_hash,
    };
}

static void letter_find(struct letter *letter, const struct amb_entry *entry, uint32_t index)
{
    struct amb_body_iter iter;
    if (entry->is_leased) {
        amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    } else {
        amb_body_iter_init(&iter, entry->data, entry->data_len, entry->count);
    }
    for (uint32_t i = 0; i <= index; i++) {
        bool is_there = amb_body_iter_next(&iter, &letter->view);
        amb_assert(is_there);
    }
}

/* A body of its own. */
static void letter_copy(struct amb_entry *to, const struct letter *letter)
{
    uint8_t *at = to->payload.buf.data;
    uint32_t padded = amb_props_padded(letter->record.props_len);
    memcpy(at, letter->view.payload, letter->view.len);
    memset(at + letter->view.len, 0, to->data_len - letter->view.len);
    memcpy(at + to->data_len, &letter->record, sizeof(letter->record));
    memcpy(at + to->data_len + sizeof(letter->record), letter->blob, padded);
    to->meta_len = (uint32_t)sizeof(letter->record) + padded;
    amb_entry_in_buffer(to, AMB_PAYLOAD_BUFFER);
}

/* Its payload stays in the other's memory: as a leased batch of one message. */
static void letter_refer(struct amb_entry *to, const struct letter *letter, struct amb_entry *entry)
{
    uint8_t *at = to->payload.buf.data;
    uint32_t padded = amb_props_padded(letter->record.props_len);
    uint64_t offset = (uint64_t)(letter->view.payload - entry->segment->base);
    memcpy(at, &letter->record, sizeof(letter->record));
    memcpy(at + sizeof(letter->record), &offset, sizeof(offset));
    memcpy(at + sizeof(letter->record) + sizeof(offset), letter->blob, padded);
    to->meta = at;
    to->meta_len = (uint32_t)(sizeof(letter->record) + sizeof(offset)) + padded;
    at += to->meta_len;
    memcpy(at, &letter->record, sizeof(letter->record));
    memcpy(at + sizeof(letter->record), letter->blob, padded);
    to->singles = at;
    to->data = entry->segment->base;
    to->segment = entry->segment;
    to->is_leased = true;
    to->lease_user = entry->lease_user;
    to->charge = amb_entry_charge(entry);
    to->payload.kind = AMB_PAYLOAD_BUFFER; /* of its own: the records */
    to->parent = entry;
    amb_entry_ref(entry);
}

static struct amb_entry *letter_entry(struct amb_shard *shard, const struct letter *letter,
                                      struct amb_entry *entry)
{
    bool is_copy = letter->view.len <= DEADLETTER_COPY_MAX && entry->segment->gpu == NULL;
    uint64_t data_len = amb_payload_padded(letter->view.len);
    uint64_t size = (is_copy ? data_len : 64) +
                    2 * (sizeof(letter->record) + amb_props_padded(letter->record.props_len));
    struct amb_entry *to =
        shard->entries.pool.used >= shard->entries.max ? NULL : amb_pool_get(&shard->entries.pool);
    if (to == NULL) {
        return NULL;
    }
    if (amb_bufpool_alloc(amb_shard_pool(shard, entry->group), size, &to->payload.buf) != AMB_OK) {
        amb_pool_put(&shard->entries.pool, to);
        return NULL;
    }
    to->refs = to->count = 1;
    to->data_len = data_len;
    to->home = shard;
    to->time_ns = shard->real_ns;
    to->is_whole = true;
    to->is_of_gpu = entry->is_of_gpu;
    to->group = entry->group;
    if (is_copy) {
        letter_copy(to, letter);
    } else {
        letter_refer(to, letter, entry);
    }
    amb_entry_charge_copy(to, entry);
    return to;
}

void amb_deadletter(struct amb_shard *shard, const struct amb_topic *of, struct amb_entry *entry,
                    uint32_t index, uint32_t deliveries, const char *reason)
{
    char name[AMB_TOPIC_MAX + 1];
    const char *topic = of->name;
    int len = snprintf(name, sizeof(name), "%s%s", AMB_DEADLETTER_PREFIX, topic);
    /* An inbox has none: its name, and the answers in it, are for the asker alone. */
    bool has_name = len > 0 && len < (int)sizeof(name) &&
                    !amb_pattern_is_inbox(topic, strlen(topic)) &&
                    amb_topic_check(name, (size_t)len, NULL) == AMB_OK &&
                    strncmp(topic, AMB_DEADLETTER_PREFIX, strlen(AMB_DEADLETTER_PREFIX)) != 0;
    struct letter letter;
    struct amb_entry *to = NULL;
    if (has_name && shard->upcalls->dead_letter != NULL) {
        letter_find(&letter, entry, index);
        letter_write_props(&letter, topic, entry->first_seq + entry->above + index, deliveries,
                           reason);
        to = letter_entry(shard, &letter, entry);
    }
    if (to == NULL) {
        amb_stat_add(&shard->stats->msgs_dead_lost, 1);
        return;
    }
    shard->upcalls->dead_letter(shard, to, of->tenant, name);
}
