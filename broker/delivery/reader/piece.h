/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A piece: what one delivery gives of an entry, and the frame that says so. Cursors (give.c) and
 * members of queues (acks/taker_send.c) make theirs here.
 *
 *   MAP, MAP_LEASED   the client reads the entry where it lies; of a leased one its records come
 *   DELIVER           a body on the link: of the whole entry, of a slice, or one leased message
 *   LAZY              records alone (lazy.h)
 *
 * Threads: the shard's worker. Memory: none but frames from the shard's pool.
 */
#pragma once

#include "broker/delivery/reader/subscription.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "wire/base/status.h"
#include "wire/codec/frame.h"

#include <stdint.h>

struct amb_session;
struct amb_topic;

/* Messages first .. first+count-1 of `total`. */
struct amb_piece {
    uint8_t type;
    uint32_t flags;
    uint32_t total, first, count, meta_len;
    uint64_t seq, data_len;
    const uint8_t *data, *meta; /* of a body on the link */
};

/* The type of a frame that gives the entry in place. */
static inline uint8_t amb_piece_map_type(const struct amb_entry *entry)
{
    return entry->is_leased ? AMB_FRAME_MAP_LEASED : AMB_FRAME_MAP;
}

/* Messages of an entry from index `first` on, as a frame of that type has them. */
static inline struct amb_piece amb_piece_of(const struct amb_entry *entry, uint8_t type,
                                            uint32_t first, uint32_t count)
{
    return (struct amb_piece){
        .type = type,
        .total = entry->count,
        .first = first,
        .count = count,
        .meta_len = entry->meta_len,
        .seq = entry->first_seq + first,
        .data_len = entry->data_len,
        .data = type == AMB_FRAME_DELIVER ? entry->data : NULL,
        .meta = type != AMB_FRAME_MAP ? entry->meta : NULL,
    };
}

/* Message `index` of a leased entry by copy, straight from its slot. single: its record and blob in
 * a row, or NULL if it has no blob. */
static inline struct amb_piece amb_piece_single(const struct amb_entry *entry, uint32_t index,
                                                const struct amb_message_view *view,
                                                const uint8_t *single)
{
    bool is_far = entry->segment->gpu != NULL; /* The link fetches it from there. */
    return (struct amb_piece){
        .type = AMB_FRAME_DELIVER,
        .flags = is_far ? AMB_FRAME_FLAG_DEVICE : AMB_FRAME_FLAG_NONE,
        .total = 1,
        .count = 1,
        .meta_len = (uint32_t)sizeof(struct amb_record) + amb_props_padded(view->props_len),
        .seq = entry->first_seq + index,
        .data_len = amb_payload_padded(view->len),
        .data = view->payload,
        .meta = single != NULL ? single : entry->meta + index * sizeof(struct amb_record),
    };
}

static inline bool amb_piece_is_map(const struct amb_piece *piece)
{
    return piece->type == AMB_FRAME_MAP || piece->type == AMB_FRAME_MAP_LEASED;
}

/* The frame of the delivery that was noted last. The caller says the losses before it. */
static inline struct amb_frame amb_piece_frame(const struct amb_piece *piece,
                                               const struct amb_entry *entry,
                                               const struct amb_subscription *sub, uint32_t topic)
{
    return (struct amb_frame){
        .type = piece->type,
        .flags = piece->flags,
        .handle = sub->handle,
        .topic = topic,
        .count = piece->total,
        .first = piece->first,
        .rest = piece->total - piece->first - piece->count,
        .meta_len = piece->meta_len,
        .data_len = piece->data_len,
        .seq = piece->seq,
        .number = sub->delivered,
        .time_ns = entry->time_ns,
        .above = entry->above,
        .segment = amb_piece_is_map(piece) ? entry->segment->id : 0,
        .offset = piece->type == AMB_FRAME_MAP ? (uint64_t)(entry->data - entry->segment->base) : 0,
    };
}

/* Sends it. Without memory for it the session ends. */
void amb_piece_send(struct amb_session *session, const struct amb_frame *frame,
                    const struct amb_piece *piece, struct amb_entry *entry);
/* Tells the client the name of a topic that it will get messages of. The name stays where it is as
 * long as *naming is not 0. */
AMB_MUST_CHECK enum amb_status amb_piece_name(const struct amb_subscription *sub,
                                              const struct amb_topic *topic, const char *name,
                                              uint32_t *naming);
