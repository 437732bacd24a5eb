/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/announce.h"

#include "broker/ingest/route.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/topic.h"
#include "wire/codec/frame.h"

#include <stdlib.h>
#include <string.h>

static enum amb_status announce_write(struct amb_shard *shard, const char *text,
                                      struct amb_entry *entry)
{
    size_t len = strlen(text);
    const struct amb_record record = {.len = (uint32_t)len};
    entry->data_len = amb_payload_padded(len);
    entry->meta_len = (uint32_t)sizeof(record);
    enum amb_status status =
        amb_reclaim_alloc(shard, amb_shard_pool(shard, entry->group),
                          entry->data_len + entry->meta_len, &entry->payload.buf);
    if (status != AMB_OK) {
        return status;
    }
    amb_entry_in_buffer(entry, AMB_PAYLOAD_BUFFER);
    uint8_t *data = entry->payload.buf.data;
    memset(data, 0, entry->data_len);
    memcpy(data, text, len);
    memcpy(data + entry->data_len, &record, sizeof(record));
    return AMB_OK;
}

static void announce(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_announce *ask =
        AMB_CONTAINER_OF(order, struct amb_order_announce, order);
    const struct amb_topic *topic = amb_shard_topic(shard, ask->topic);
    /* Of a quiet topic the number of readers may be told later than they come. */
    bool is_wanted = topic != NULL && (topic->audience.matched != 0 || topic->audience.is_quiet);
    struct amb_entry *entry = is_wanted ? amb_pool_get(&shard->entries.pool) : NULL;
    if (entry == NULL) {
        order->status = topic == NULL ? AMB_ENOTFOUND : AMB_OK;
        return;
    }
    entry->refs = 1;
    entry->home = shard;
    entry->count = 1;
    entry->topic = topic->id;
    entry->group = &amb_trust_group_private;
    order->status = announce_write(shard, ask->text, entry);
    if (order->status != AMB_OK) {
        amb_pool_put(&shard->entries.pool, entry);
        return;
    }
    entry->is_whole = true;
    entry->time_ns = shard->real_ns;
    amb_route(shard, entry, shard->index);
}

static void announce_fini(struct amb_order *order)
{
    free(AMB_CONTAINER_OF(order, struct amb_order_announce, order)->text);
}

const struct amb_order_kind amb_order_announce = {
    .run = announce,
    .fini = announce_fini,
    .size = AMB_ORDER_SIZE(struct amb_order_announce),
};
