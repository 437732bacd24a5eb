/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/slice.h"

#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "wire/codec/frame.h"

#include <string.h>

const uint8_t *amb_slice_blobs(const struct amb_entry *entry)
{
    size_t each = sizeof(struct amb_record) + (entry->is_leased ? sizeof(uint64_t) : 0);
    return entry->meta + entry->count * each;
}

uint32_t amb_slice_blobs_before(const struct amb_entry *entry, uint32_t index)
{
    const struct amb_record *records = amb_entry_records(entry);
    uint32_t len = 0;
    for (uint32_t i = 0; i < index; i++) {
        len += amb_props_padded(records[i].props_len);
    }
    return len;
}

uint64_t amb_slice_data_between(const struct amb_entry *entry, uint32_t from, uint32_t to)
{
    const struct amb_record *records = amb_entry_records(entry);
    uint64_t len = 0;
    for (uint32_t i = from; i < to; i++) {
        len += amb_payload_padded(records[i].len);
    }
    return len;
}

static void copy_payloads(const struct amb_entry *entry, uint32_t first, uint32_t count,
                          uint8_t *to, uint64_t data_len)
{
    if (!entry->is_leased) {
        memcpy(to, entry->data + amb_slice_data_between(entry, 0, first), data_len);
        return;
    }
    const uint64_t *offsets = amb_leased_offsets(entry->meta, entry->count);
    for (uint32_t i = first; i < first + count; i++) {
        uint64_t padded = amb_payload_padded(amb_entry_records(entry)[i].len);
        memcpy(to, entry->data + offsets[i], padded);
        to += padded;
    }
}

struct amb_entry *amb_slice_copy(struct amb_shard *shard, const struct amb_entry *entry,
                                 uint32_t first, uint32_t count)
{
    uint32_t table = count * (uint32_t)sizeof(struct amb_record);
    uint32_t blobs_at = amb_slice_blobs_before(entry, first);
    uint32_t blobs = amb_slice_blobs_before(entry, first + count) - blobs_at;
    uint64_t data_len = amb_slice_data_between(entry, first, first + count);
    struct amb_buf buf;
    struct amb_entry *slice = amb_pool_get(&shard->entries.pool);
    if (slice == NULL) {
        return NULL;
    }
    if (amb_bufpool_alloc(amb_shard_pool(shard, entry->group), data_len + table + blobs, &buf) !=
        AMB_OK) {
        amb_pool_put(&shard->entries.pool, slice);
        return NULL;
    }
    copy_payloads(entry, first, count, buf.data, data_len);
    memcpy(buf.data + data_len, amb_entry_records(entry) + first, table);
    memcpy(buf.data + data_len + table, amb_slice_blobs(entry) + blobs_at, blobs);
    amb_entry_describe(slice, entry);
    slice->home = shard;
    amb_entry_share_take_copy(slice, entry);
    slice->payload.buf = buf;
    slice->data_len = data_len;
    slice->meta_len = table + blobs;
    slice->count = count;
    slice->first_seq = entry->first_seq + first;
    slice->singles = NULL;
    slice->is_leased = false;
    amb_entry_in_buffer(slice, AMB_PAYLOAD_BUFFER);
    return slice;
}
