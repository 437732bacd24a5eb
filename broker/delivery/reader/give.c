/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/give.h"

#include "broker/delivery/reader/deliver.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/pick.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "broker/shard/tally.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"

static bool give_name(struct amb_cursor *cursor)
{
    struct amb_topic *topic = cursor->topic->namesake;
    topic = topic != NULL ? topic : cursor->topic;
    const struct amb_frame frame = {
        .type = AMB_FRAME_TOPIC,
        .handle = cursor->sub->handle,
        .topic = topic->id,
        .count = topic->priority,
        .data_len = topic->name_len,
    };
    enum amb_status status =
        amb_outgoing_send_name(cursor->sub->session, &frame, topic->name, &topic->naming);
    cursor->is_named = status == AMB_OK;
    return cursor->is_named;
}

/* What one delivery gives of an entry: `count` messages, from index `first` of `total` on. */
struct give_piece {
    uint8_t type;
    uint32_t flags;
    uint32_t total, first, count, meta_len;
    uint64_t seq, data_len;
    const uint8_t *data, *meta; /* of a body on the link */
};

/* Room in the link, credit, and a client that knows the topic's name. */
static bool is_ready(struct amb_cursor *cursor, uint32_t msgs, uint64_t bytes)
{
    return amb_session_has_room(cursor->sub->session) &&
           amb_subscription_has_credit(cursor->sub, msgs, bytes) &&
           (cursor->is_named || give_name(cursor));
}

/* What was noted last counts for whoever published it. */
static void give_tally(const struct amb_cursor *cursor, const struct amb_entry *entry)
{
    struct amb_subscription *sub = cursor->sub;
    struct amb_tally *tally = amb_tally_of(entry, cursor->counts_from);
    if (tally != NULL) {
        sub->deliveries[sub->delivered & sub->mask].tally = tally;
        tally->open++;
        sub->session->tallies++;
        amb_heap_take(&sub->session->heap, sizeof(*tally));
    }
}

static void give_send(struct amb_session *session, const struct amb_frame *frame,
                      const uint8_t *data, const uint8_t *meta, struct amb_entry *entry)
{
    if (amb_outgoing_send(session, frame, data, meta, entry) == AMB_ENOMEM) {
        /* A number was given and is missing: only the end of the session repairs that. */
        session->shard->session_ended(session->shard, session->client_id, AMB_ENOMEM,
                                      "no memory for a delivery");
    }
}

/* May a reader hold another tally? One it always may. */
static inline bool may_count(const struct amb_session *session, const struct amb_entry *entry)
{
    return __builtin_expect(entry->tally == NULL, 1) || session->tallies == 0 ||
           amb_heap_has_room(&session->heap, sizeof(struct amb_tally));
}

/* One delivery, for which the cursor is ready. False: not now. */
static bool give_one(struct amb_cursor *cursor, struct amb_entry *entry,
                     const struct give_piece *piece)
{
    struct amb_subscription *sub = cursor->sub;
    struct amb_session *session = sub->session;
    bool is_map = piece->type != AMB_FRAME_DELIVER;
    if (!may_count(session, entry) ||
        amb_subscription_deliver(sub, piece->count, piece->data_len + piece->meta_len,
                                 is_map ? entry : NULL) != AMB_OK) {
        return false;
    }
    if (__builtin_expect(entry->tally != NULL, 0)) {
        give_tally(cursor, entry);
    }
    struct amb_gap gap = {0};
    if (piece->seq > cursor->expected_seq) {
        amb_pick_gap(cursor, piece->seq, &gap);
    }
    const struct amb_frame frame = {
        .type = piece->type,
        .flags = piece->flags,
        .handle = sub->handle,
        .topic = cursor->topic->id,
        .count = piece->total,
        .first = piece->first,
        .rest = piece->total - piece->first - piece->count,
        .meta_len = piece->meta_len,
        .data_len = piece->data_len,
        .seq = piece->seq,
        .number = sub->delivered,
        .lost = gap.lost,
        .status = (int32_t)gap.why,
        .time_ns = entry->time_ns,
        .above = entry->above,
        .segment = is_map ? entry->segment->id : 0,
        .offset = piece->type == AMB_FRAME_MAP ? (uint64_t)(entry->data - entry->segment->base) : 0,
    };
    give_send(session, &frame, piece->data, piece->meta, piece->meta == NULL ? NULL : entry);
    amb_deliver_count(session, !is_map, piece->count, piece->data_len + piece->meta_len);
    cursor->expected_seq = piece->seq + piece->count;
    return true;
}

/*
 * A leased batch by copy. Its payloads lie apart, so each message is a delivery of its own,
 * straight from its slot. False: not all of them now; it goes on at cursor->within.
 */
static bool give_singles(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    bool is_far = entry->segment->gpu != NULL; /* The link fetches it from there. */
    struct amb_body_iter iter;
    struct amb_message_view view;
    const uint8_t *single = entry->singles;
    amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    for (uint32_t i = 0; i < end && amb_body_iter_next(&iter, &view); i++) {
        struct give_piece piece = {
            .type = AMB_FRAME_DELIVER,
            .flags = is_far ? AMB_FRAME_FLAG_DEVICE : AMB_FRAME_FLAG_NONE,
            .total = 1,
            .count = 1,
            .meta_len = (uint32_t)sizeof(struct amb_record) + amb_props_padded(view.props_len),
            .seq = entry->first_seq + i,
            .data_len = amb_payload_padded(view.len),
            .data = view.payload,
            .meta = single != NULL ? single : entry->meta + i * sizeof(struct amb_record),
        };
        single = single != NULL ? single + piece.meta_len : NULL;
        if (i < cursor->within) {
            continue;
        }
        if (!is_ready(cursor, 1, piece.data_len + piece.meta_len) ||
            !give_one(cursor, entry, &piece)) {
            return false;
        }
        cursor->within++;
    }
    return true;
}

/* Messages of an entry from index `first` on, as a frame of that type has them. */
static struct give_piece piece_of(const struct amb_entry *entry, uint8_t type, uint32_t first,
                                  uint32_t count)
{
    return (struct give_piece){
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

/* Less than half of a batch by copy, for which the cursor is ready: cut out, so that the rest does
 * not go over the link with it. Without memory for that it does. */
static bool give_slice(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t count)
{
    struct amb_entry *slice = amb_slice_copy(cursor->topic->shard, entry, cursor->within, count);
    if (slice == NULL) {
        const struct give_piece whole = piece_of(entry, AMB_FRAME_DELIVER, cursor->within, count);
        return give_one(cursor, entry, &whole);
    }
    slice->tally = entry->tally; /* Of this log; looked at here alone. */
    const struct give_piece piece = piece_of(slice, AMB_FRAME_DELIVER, 0, count);
    bool is_delivered = give_one(cursor, slice, &piece);
    amb_entry_unref(slice, cursor->topic->shard);
    return is_delivered;
}

/* A batch in GPU memory: there, for those who want and may; else its copy in host memory. */
static bool give_from_gpu(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_session *session = cursor->sub->session;
    const struct give_piece piece =
        piece_of(entry, AMB_FRAME_MAP_LEASED, cursor->within, end - cursor->within);
    enum amb_mem mem = cursor->sub->options.mem;
    enum amb_mapping_state state = AMB_MAPPING_REFUSED;
    if ((mem == AMB_MEM_CUDA || mem == AMB_MEM_AS_SENT) && amb_deliver_may_keep(session, entry)) {
        state = amb_session_mapping_of(session, entry->segment);
    }
    if (state == AMB_MAPPING_READY) {
        return is_ready(cursor, piece.count, amb_entry_bytes(entry)) &&
               give_one(cursor, entry, &piece);
    }
    if (state == AMB_MAPPING_ASKED) {
        return false;
    }
    if (cursor->sub->options.by_link && amb_deliver_may_by_link(session, entry)) {
        return give_singles(cursor, entry, end);
    }
    struct amb_entry *twin = amb_twin_get(session->shard, entry);
    if (twin != NULL) {
        twin->tally = entry->tally; /* Of this log; looked at here alone. */
        return amb_give(cursor, twin, end);
    }
    /* Failed: its next delivery tells the gap. */
    return entry->twin_state >= AMB_TWIN_FAILED;
}

bool amb_give(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    if (entry->is_leased && entry->segment->gpu != NULL) {
        return give_from_gpu(cursor, entry, end);
    }
    if (cursor->within > 0 && entry->is_leased &&
        amb_deliver_way(cursor->sub, entry) == AMB_DELIVER_COPY) {
        return give_singles(cursor, entry, end); /* begun, and so finished */
    }
    if (!is_ready(cursor, end - cursor->within, amb_entry_bytes(entry))) {
        return false;
    }
    uint32_t count = end - cursor->within;
    uint8_t type = entry->is_leased ? AMB_FRAME_MAP_LEASED : AMB_FRAME_MAP;
    switch (amb_deliver_way(cursor->sub, entry)) {
    case AMB_DELIVER_WAIT:
        return false;
    case AMB_DELIVER_MAP:
        break;
    case AMB_DELIVER_COPY:
        if (entry->is_leased) {
            return give_singles(cursor, entry, end);
        }
        if (__builtin_expect(count * 2 < entry->count, 0)) {
            return give_slice(cursor, entry, count);
        }
        type = AMB_FRAME_DELIVER;
        break;
    }
    const struct give_piece piece = piece_of(entry, type, cursor->within, count);
    return give_one(cursor, entry, &piece);
}

bool amb_give_lazy(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_subscription *sub = cursor->sub;
    uint32_t first = cursor->within, count = end - first;
    struct amb_frame frame = {
        .handle = sub->handle,
        .topic = cursor->topic->id,
        .seq = entry->first_seq + first,
        .time_ns = entry->time_ns,
        .above = entry->above,
    };
    const uint8_t *meta;
    amb_lazy_cut(entry, first, count, &frame, &meta);
    uint64_t bytes = frame.meta_len + (sub->options.lazy == AMB_LAZY_PIN ? frame.data_len : 0);
    if (!is_ready(cursor, count, amb_lazy_bytes(sub, entry)) || !amb_lazy_has_room(sub, entry) ||
        !may_count(sub->session, entry) ||
        amb_lazy_deliver(sub, entry, first, count, bytes) != AMB_OK) {
        return false;
    }
    if (entry->tally != NULL) {
        give_tally(cursor, entry);
    }
    struct amb_gap gap = {0};
    if (frame.seq > cursor->expected_seq) {
        amb_pick_gap(cursor, frame.seq, &gap);
    }
    frame.number = sub->delivered;
    frame.lost = gap.lost;
    frame.status = (int32_t)gap.why;
    give_send(sub->session, &frame, NULL, meta, entry);
    amb_deliver_count(sub->session, true, count, frame.meta_len);
    cursor->expected_seq = frame.seq + count;
    return true;
}
