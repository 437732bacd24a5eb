/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/leased_copy.h"

#include "broker/base/fault.h"
#include "broker/shard/entry.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/reclaim.h"
#include "wire/base/copy.h"

#include <string.h>

static uint32_t offsets_len(const struct amb_entry *entry)
{
    return entry->count * (uint32_t)sizeof(uint64_t);
}

/* Writes it as the body of a batch. */
static void body_write(const struct amb_entry *entry, uint8_t *to)
{
    const uint8_t *meta = to + entry->data_len;
    uint32_t table = entry->count * (uint32_t)sizeof(struct amb_record);
    uint32_t offsets = offsets_len(entry);
    struct amb_body_iter iter;
    struct amb_message_view view;
    amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    while (amb_body_iter_next(&iter, &view)) {
        uint64_t padded = amb_payload_padded(view.len);
        if (!AMB_FAULT(SPILL_TORN) || iter.left > 0) {
            amb_copy(to, view.payload, padded);
        }
        to += padded;
    }
    amb_assert(to == meta);
    memcpy(to, entry->meta, table);
    memcpy(to + table, entry->meta + table + offsets, entry->meta_len - offsets - table);
}

/* The entry has its body in its buffer: records and blobs behind the payloads. */
static void body_take(struct amb_entry *entry, enum amb_payload_kind kind, uint32_t meta_len)
{
    entry->meta_len = meta_len;
    entry->singles = NULL;
    entry->is_leased = false;
    amb_entry_in_buffer(entry, kind);
}

/* The broker's own copy, from here on a batch like any other. Its publisher learns that the slots
 * are free when the topic has room for more. */
enum amb_status amb_leased_copy_in(struct amb_shard *shard, struct amb_entry *entry)
{
    uint32_t meta_len = entry->meta_len - offsets_len(entry);
    struct amb_buf buf;
    enum amb_status status = amb_reclaim_alloc(shard, amb_shard_pool(shard, entry->group),
                                               entry->data_len + meta_len, &buf);
    if (status != AMB_OK) {
        return status;
    }
    body_write(entry, buf.data);
    amb_payload_copied(&entry->payload, shard, &buf);
    body_take(entry, AMB_PAYLOAD_COPIED, meta_len);
    return AMB_OK;
}

enum amb_status amb_leased_copy_out(struct amb_shard *shard, const struct amb_entry *entry,
                                    bool reclaims, struct amb_entry *copy)
{
    uint32_t meta_len = entry->meta_len - offsets_len(entry);
    struct amb_buf *buf = &copy->payload.buf;
    uint64_t len = entry->data_len + meta_len;
    struct amb_bufpool *pool = amb_shard_pool(shard, entry->group);
    enum amb_status status =
        reclaims ? amb_reclaim_alloc(shard, pool, len, buf) : amb_bufpool_alloc(pool, len, buf);
    if (status == AMB_OK) {
        body_write(entry, buf->data);
        body_take(copy, AMB_PAYLOAD_BUFFER, meta_len);
    }
    return status;
}
