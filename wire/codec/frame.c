/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head's bytes, also described in docs/wire.md:
 *
 *     0 u16 magic       16 u64 secret     40 u32 meta_len    72 u64 lost
 *     2 u8  version     24 u32 handle     44 i32 status      80 i64 time_ns
 *     3 u8  type        28 u32 topic      48 u64 data_len    88 u64 segment
 *     4 u32 flags       32 u32 count      56 u64 seq         96 u64 offset
 *     8 u32 session     36 u32 first      64 u64 number     104 u32 rest
 *    12 u32 generation                                      108 u32 attempt
 *                                                           112 u64 above, zeros up to 128
 *
 * Every field is at a multiple of its size. Sums of peer-chosen lengths are taken in 64 bits: at
 * most 1024 records of 32-bit lengths, so they cannot overflow.
 */
#include "wire/codec/frame.h"

#include "wire/base/assert.h"
#include "wire/codec/bytes.h"
#include "wire/codec/props.h"
#include "wire/codec/topic.h"

#include <stdalign.h>
#include <string.h>

enum {
    AT_MAGIC = 0,
    AT_VERSION = 2,
    AT_TYPE = 3,
    AT_FLAGS = 4,
    AT_SESSION = 8,
    AT_GENERATION = 12,
    AT_SECRET = 16,
    AT_HANDLE = 24,
    AT_TOPIC = 28,
    AT_COUNT = 32,
    AT_FIRST = 36,
    AT_META_LEN = 40,
    AT_STATUS = 44,
    AT_DATA_LEN = 48,
    AT_SEQ = 56,
    AT_NUMBER = 64,
    AT_LOST = 72,
    AT_TIME = 80,
    AT_SEGMENT = 88,
    AT_OFFSET = 96,
    AT_REST = 104,
    AT_ATTEMPT = 108,
    AT_ABOVE = 112,
    AT_RESERVED = 120, /* a word */
};

#define RECORD_SIZE 16u

_Static_assert(AT_RESERVED + sizeof(uint64_t) == AMB_FRAME_HEAD_SIZE, "nothing unchecked");
_Static_assert((AMB_PAYLOAD_PAD & (AMB_PAYLOAD_PAD - 1)) == 0, "padding is by masks");
_Static_assert(sizeof(struct amb_record) == RECORD_SIZE, "records are read where they lie");
_Static_assert(offsetof(struct amb_record, len) == 0, "wire layout");
_Static_assert(offsetof(struct amb_record, flags) == 4, "wire layout");
_Static_assert(offsetof(struct amb_record, props_len) == 6, "wire layout");
_Static_assert(offsetof(struct amb_record, key_hash) == 8, "wire layout");
_Static_assert(offsetof(struct amb_record, ttl_ms) == 12, "wire layout");
_Static_assert(AMB_MEM_PINNED - AMB_MEM_HOST == 1 && AMB_MEM_CUDA - AMB_MEM_HOST == 2 &&
                   AMB_MEM_CUDA_MANAGED - AMB_MEM_HOST == 3 && AMB_RECORD_MEM == 3,
               "kinds of memory are numbers of the wire");
_Static_assert(AMB_PAYLOAD_PAD % alignof(struct amb_record) == 0, "the table follows the data");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little endian in memory");

void amb_frame_encode(const struct amb_frame *frame, uint8_t head[AMB_FRAME_HEAD_SIZE])
{
    amb_put16(head + AT_MAGIC, AMB_FRAME_MAGIC);
    head[AT_VERSION] = AMB_FRAME_VERSION;
    head[AT_TYPE] = frame->type;
    amb_put32(head + AT_FLAGS, frame->flags);
    amb_put32(head + AT_SESSION, frame->session);
    amb_put32(head + AT_GENERATION, frame->generation);
    amb_put64(head + AT_SECRET, frame->secret);
    amb_put32(head + AT_HANDLE, frame->handle);
    amb_put32(head + AT_TOPIC, frame->topic);
    amb_put32(head + AT_COUNT, frame->count);
    amb_put32(head + AT_FIRST, frame->first);
    amb_put32(head + AT_META_LEN, frame->meta_len);
    amb_put32(head + AT_STATUS, (uint32_t)frame->status);
    amb_put64(head + AT_DATA_LEN, frame->data_len);
    amb_put64(head + AT_SEQ, frame->seq);
    amb_put64(head + AT_NUMBER, frame->number);
    amb_put64(head + AT_LOST, frame->lost);
    amb_put64(head + AT_TIME, (uint64_t)frame->time_ns);
    amb_put64(head + AT_SEGMENT, frame->segment);
    amb_put64(head + AT_OFFSET, frame->offset);
    amb_put32(head + AT_REST, frame->rest);
    amb_put32(head + AT_ATTEMPT, frame->attempt);
    amb_put64(head + AT_ABOVE, frame->above);
    amb_put64(head + AT_RESERVED, 0);
}

/* Ranges that hold for every type. */
static bool is_in_range(const struct amb_frame *frame)
{
    bool may_be_far = frame->type == AMB_FRAME_BATCH || frame->type == AMB_FRAME_DELIVER;
    uint32_t flags = frame->type == AMB_FRAME_LAZY ? AMB_FRAME_FLAG_OFFSETS
                     : may_be_far                  ? AMB_FRAME_FLAG_TTL | AMB_FRAME_FLAG_DEVICE
                                                   : AMB_FRAME_FLAG_TTL;
    return (frame->flags & ~flags) == 0 && frame->handle < AMB_HANDLES_MAX &&
           frame->first < AMB_BATCH_MSGS_MAX && frame->rest < AMB_BATCH_MSGS_MAX &&
           frame->meta_len <= AMB_META_MAX && frame->data_len <= AMB_DATA_MAX;
}

static uint32_t table_len(const struct amb_frame *frame)
{
    bool has_offsets =
        amb_frame_is_leased(frame->type) || (frame->flags & AMB_FRAME_FLAG_OFFSETS) != 0;
    return frame->count * (RECORD_SIZE + (has_offsets ? (uint32_t)sizeof(uint64_t) : 0));
}

static bool is_batch_head(const struct amb_frame *frame)
{
    return frame->count >= 1 && frame->count <= AMB_BATCH_MSGS_MAX &&
           frame->meta_len >= table_len(frame);
}

static bool is_ack_head(const struct amb_frame *frame)
{
    return frame->number >= 1 && frame->count >= 1 &&
           frame->count <= AMB_BATCH_MSGS_MAX - frame->first &&
           frame->status <= AMB_ACK_KIND_TERM && frame->time_ns >= 0;
}

static bool is_fetch_range(const struct amb_frame *frame)
{
    return frame->data_len >= 1 && frame->data_len <= AMB_FETCH_MAX &&
           frame->offset <= UINT32_MAX - frame->data_len;
}

/* The fields that each type asks for. False also for a type that is none. */
static bool is_well_formed(const struct amb_frame *frame)
{
    switch (frame->type) {
    case AMB_FRAME_BATCH:
        return is_batch_head(frame) &&
               (frame->count == 1 ||
                (frame->number == 0 && (frame->flags & AMB_FRAME_FLAG_DEVICE) == 0));
    case AMB_FRAME_COMMIT:
        return is_batch_head(frame) && frame->number >= 1;
    case AMB_FRAME_DELIVER:
        return is_batch_head(frame) && frame->first + frame->rest < frame->count &&
               (frame->count == 1 || (frame->flags & AMB_FRAME_FLAG_DEVICE) == 0);
    case AMB_FRAME_MAP:
    case AMB_FRAME_MAP_LEASED:
    case AMB_FRAME_LAZY:
        return is_batch_head(frame) && frame->first + frame->rest < frame->count;
    case AMB_FRAME_FETCH:
        return frame->number >= 1 &&
               (is_fetch_range(frame) || (frame->data_len == 0 && frame->offset == 0));
    case AMB_FRAME_FETCHED_MAP:
        return frame->data_len >= 1 && frame->data_len <= UINT32_MAX && frame->meta_len == 0 &&
               frame->status == AMB_OK;
    case AMB_FRAME_FETCHED:
        return frame->meta_len == 0 &&
               (frame->status == AMB_OK ? is_fetch_range(frame) : frame->data_len == 0);
    case AMB_FRAME_RELEASE_RANGE:
    case AMB_FRAME_FREED:
        return frame->number >= 1 && frame->count >= 1 &&
               frame->number <= UINT64_MAX - frame->count;
    case AMB_FRAME_ACK:
        return is_ack_head(frame) && frame->status >= AMB_ACK_KIND_ACK;
    case AMB_FRAME_TERM:
        return is_ack_head(frame) && frame->status == AMB_ACK_KIND_TERM && frame->data_len >= 1 &&
               frame->data_len <= AMB_ACK_REASON_MAX && frame->meta_len == 0;
    case AMB_FRAME_TOPIC:
        return frame->data_len >= 1 && frame->data_len <= AMB_TOPIC_MAX && frame->meta_len == 0 &&
               frame->count <= AMB_PRIORITY_LOW;
    case AMB_FRAME_SEG_READY:
    case AMB_FRAME_SEG_GONE:
    case AMB_FRAME_SETTLED:
    case AMB_FRAME_SEG_DROP:
        return true;
    default:
        return false;
    }
}

enum amb_status amb_frame_decode(const uint8_t head[AMB_FRAME_HEAD_SIZE], struct amb_frame *out)
{
    if (amb_get16(head + AT_MAGIC) != AMB_FRAME_MAGIC || head[AT_VERSION] != AMB_FRAME_VERSION) {
        return AMB_EPROTO;
    }
    if (amb_get64(head + AT_RESERVED) != 0) {
        return AMB_EPROTO;
    }
    struct amb_frame frame = {
        .type = head[AT_TYPE],
        .flags = amb_get32(head + AT_FLAGS),
        .session = amb_get32(head + AT_SESSION),
        .generation = amb_get32(head + AT_GENERATION),
        .secret = amb_get64(head + AT_SECRET),
        .handle = amb_get32(head + AT_HANDLE),
        .topic = amb_get32(head + AT_TOPIC),
        .count = amb_get32(head + AT_COUNT),
        .first = amb_get32(head + AT_FIRST),
        .rest = amb_get32(head + AT_REST),
        .attempt = amb_get32(head + AT_ATTEMPT),
        .meta_len = amb_get32(head + AT_META_LEN),
        .status = (int32_t)amb_get32(head + AT_STATUS),
        .data_len = amb_get64(head + AT_DATA_LEN),
        .seq = amb_get64(head + AT_SEQ),
        .number = amb_get64(head + AT_NUMBER),
        .lost = amb_get64(head + AT_LOST),
        .time_ns = (int64_t)amb_get64(head + AT_TIME),
        .segment = amb_get64(head + AT_SEGMENT),
        .offset = amb_get64(head + AT_OFFSET),
        .above = amb_get64(head + AT_ABOVE),
    };
    if (!is_in_range(&frame) || !is_well_formed(&frame)) {
        return AMB_EPROTO;
    }
    *out = frame;
    return AMB_OK;
}

/* One record against the bytes that are left for its payload and its blob. */
static bool is_good_record(const struct amb_record *record, const uint8_t *blob, uint64_t data_left,
                           uint64_t blobs_left)
{
    if (amb_payload_padded(record->len) > data_left) {
        return false;
    }
    /* Most messages have no properties. */
    return record->props_len == 0 || (record->props_len <= AMB_PROPS_MAX &&
                                      amb_props_padded(record->props_len) <= blobs_left &&
                                      amb_props_check(blob, record->props_len));
}

/* The table and the blobs behind it: every record good, and nothing left over. */
static bool is_good_meta(const struct amb_frame *frame, const uint8_t *meta)
{
    const uint8_t *blob = meta + table_len(frame);
    uint64_t blobs_left = frame->meta_len - table_len(frame);
    uint64_t data_left = frame->data_len;
    for (uint32_t i = 0; i < frame->count; i++) {
        struct amb_record record;
        memcpy(&record, meta + (size_t)i * RECORD_SIZE, sizeof(record));
        if (!is_good_record(&record, blob, data_left, blobs_left)) {
            return false;
        }
        data_left -= amb_payload_padded(record.len);
        blobs_left -= amb_props_padded(record.props_len);
        blob += amb_props_padded(record.props_len);
    }
    return data_left == 0 && blobs_left == 0;
}

static bool is_good_frame(const struct amb_frame *frame, const uint8_t *body)
{
    /* A map descriptor's offset is its peer's word. */
    return is_in_range(frame) && is_batch_head(frame) && frame->data_len % AMB_PAYLOAD_PAD == 0 &&
           (uintptr_t)body % alignof(struct amb_record) == 0;
}

enum amb_status amb_body_check(const struct amb_frame *frame, const uint8_t *body)
{
    if (amb_frame_is_apart(frame->type) || !is_good_frame(frame, body)) {
        return AMB_EPROTO;
    }
    return is_good_meta(frame, body + frame->data_len) ? AMB_OK : AMB_EPROTO;
}

enum amb_status amb_lazy_check(const struct amb_frame *frame, const uint8_t *meta)
{
    return frame->type == AMB_FRAME_LAZY && is_good_frame(frame, meta) && is_good_meta(frame, meta)
               ? AMB_OK
               : AMB_EPROTO;
}

enum amb_status amb_leased_check(const struct amb_frame *frame, const uint8_t *meta,
                                 uint64_t segment_size)
{
    if (!amb_frame_is_leased(frame->type) || !is_good_frame(frame, meta) ||
        !is_good_meta(frame, meta)) {
        return AMB_EPROTO;
    }
    const uint8_t *offsets = meta + (size_t)frame->count * RECORD_SIZE;
    for (uint32_t i = 0; i < frame->count; i++) {
        struct amb_record record;
        uint64_t offset;
        memcpy(&record, meta + (size_t)i * RECORD_SIZE, sizeof(record));
        memcpy(&offset, offsets + i * sizeof(offset), sizeof(offset));
        if (offset % AMB_PAYLOAD_PAD != 0 || offset > segment_size ||
            amb_payload_padded(record.len) > segment_size - offset) {
            return AMB_EPROTO;
        }
    }
    return AMB_OK;
}

void amb_body_iter_init(struct amb_body_iter *iter, const uint8_t *body, uint64_t data_len,
                        uint32_t count)
{
    const void *table = body + data_len;
    amb_debug_assert((uintptr_t)table % alignof(struct amb_record) == 0);
    iter->payload = body;
    iter->record = table;
    iter->props = body + data_len + (size_t)count * RECORD_SIZE;
    iter->offset = NULL;
    iter->base = NULL;
    iter->left = count;
}

void amb_body_iter_init_leased(struct amb_body_iter *iter, const uint8_t *base, const uint8_t *meta,
                               uint32_t count)
{
    amb_body_iter_init(iter, meta, 0, count);
    iter->offset = amb_leased_offsets(meta, count);
    iter->base = base;
    iter->props += count * sizeof(uint64_t);
}

void amb_body_iter_init_lazy(struct amb_body_iter *iter, const struct amb_frame *frame,
                             const uint8_t *meta)
{
    amb_body_iter_init(iter, meta, 0, frame->count);
    iter->props = meta + table_len(frame);
}

bool amb_body_iter_next(struct amb_body_iter *iter, struct amb_message_view *out)
{
    if (iter->left == 0) {
        return false;
    }
    const struct amb_record *record = iter->record;
    if (iter->offset != NULL) {
        iter->payload = iter->base + *iter->offset++;
    }
    *out = (struct amb_message_view){
        .payload = iter->payload,
        .len = record->len,
        .props = iter->props,
        .props_len = record->props_len,
        .key_hash = record->key_hash,
        .ttl_ms = record->ttl_ms,
        .flags = record->flags,
    };
    iter->payload += amb_payload_padded(record->len);
    iter->props += amb_props_padded(record->props_len);
    iter->record++;
    iter->left--;
    return true;
}
