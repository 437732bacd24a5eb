/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/give.h"

#include "broker/delivery/reader/deliver.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/pick.h"
#include "broker/delivery/reader/piece.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/reader/traced_delivery.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "broker/shard/tally.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"

static bool give_name(struct amb_cursor *cursor)
{
    struct amb_topic *topic = cursor->topic->privates.namesake;
    topic = topic != NULL ? topic : cursor->topic;
    cursor->is_named = amb_piece_name(cursor->sub, topic, topic->name, &topic->naming) == AMB_OK;
    return cursor->is_named;
}

/* Room in the link, credit, and a client that knows the topic's name. */
static bool is_ready(struct amb_cursor *cursor, uint32_t msgs, uint64_t bytes)
{
    return amb_session_has_room(cursor->sub->session) &&
           amb_subscription_has_credit(cursor->sub, msgs, bytes) &&
           (cursor->is_named || give_name(cursor));
}

/* The delivery that was entered last counts for the entry's tally. */
static __attribute__((noinline)) void give_tally(const struct amb_cursor *cursor,
                                                 const struct amb_entry *entry,
                                                 const struct amb_piece *piece)
{
    struct amb_subscription *sub = cursor->sub;
    struct amb_tally *tally = amb_tally_of(entry, cursor->counts_from);
    if (tally != NULL) {
        sub->deliveries[sub->delivered & sub->mask].tally = tally;
        tally->open++;
        sub->session->tallies++;
        amb_heap_take(&sub->session->heap, sizeof(*tally));
        if (tally->ticket != 0) {
            amb_traced_delivery_written(sub, entry, piece, tally->ticket);
        }
    }
}

/* May a reader hold another tally? One it always may. */
static inline bool may_count(const struct amb_session *session, const struct amb_entry *entry)
{
    return __builtin_expect(entry->tally == NULL, 1) || session->tallies == 0 ||
           amb_heap_has_room(&session->heap, sizeof(struct amb_tally));
}

/* The delivery that was entered last goes out, so many bytes. */
static inline __attribute__((always_inline)) void give_sent(struct amb_cursor *cursor,
                                                            struct amb_entry *entry,
                                                            const struct amb_piece *piece,
                                                            uint64_t bytes)
{
    struct amb_session *session = cursor->sub->session;
    if (__builtin_expect(entry->tally != NULL, 0)) {
        give_tally(cursor, entry, piece);
    }
    struct amb_gap gap = {0};
    if (piece->seq > cursor->loss.expected_seq) {
        amb_pick_gap(cursor, piece->seq, &gap);
    }
    struct amb_frame frame = amb_piece_frame(piece, entry, cursor->sub, cursor->topic->id);
    frame.lost = gap.lost;
    frame.status = (int32_t)gap.why;
    amb_piece_send(session, &frame, piece, entry);
    amb_deliver_count(cursor->sub, entry, piece->type, piece->count, bytes);
    cursor->loss.expected_seq = piece->seq + piece->count;
}

/* One delivery, for which the cursor is ready. False: not now. */
static inline __attribute__((always_inline)) bool
give_piece(struct amb_cursor *cursor, struct amb_entry *entry, const struct amb_piece *piece)
{
    struct amb_subscription *sub = cursor->sub;
    bool is_map = piece->type != AMB_FRAME_DELIVER;
    uint64_t bytes = piece->data_len + piece->meta_len;
    if (!may_count(sub->session, entry) ||
        amb_subscription_deliver(sub, piece->count, bytes, is_map ? entry : NULL) != AMB_OK) {
        return false;
    }
    give_sent(cursor, entry, piece, bytes);
    return true;
}

/* The same for the ways that are taken seldom. */
static bool give_one(struct amb_cursor *cursor, struct amb_entry *entry,
                     const struct amb_piece *piece)
{
    return give_piece(cursor, entry, piece);
}

/*
 * A leased batch by copy. Its payloads lie apart, so each message is a delivery of its own,
 * straight from its slot. False: not all of them now; it goes on at cursor->within.
 */
static bool give_singles(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_body_iter iter;
    struct amb_message_view view;
    const uint8_t *single = entry->singles;
    amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    for (uint32_t i = 0; i < end && amb_body_iter_next(&iter, &view); i++) {
        const struct amb_piece piece = amb_piece_single(entry, i, &view, single);
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

/* Less than half of a batch by copy, for which the cursor is ready. It is cut out, so that the rest
 * does not go over the link with it. Without memory for that it does. */
static bool give_slice(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t count)
{
    struct amb_entry *slice = amb_slice_copy(cursor->topic->shard, entry, cursor->within, count);
    if (slice == NULL) {
        const struct amb_piece whole =
            amb_piece_of(entry, AMB_FRAME_DELIVER, cursor->within, count);
        return give_one(cursor, entry, &whole);
    }
    slice->tally = entry->tally; /* Of this log; looked at here alone. */
    const struct amb_piece piece = amb_piece_of(slice, AMB_FRAME_DELIVER, 0, count);
    bool is_delivered = give_one(cursor, slice, &piece);
    amb_entry_unref(slice, cursor->topic->shard);
    return is_delivered;
}

/* A batch in GPU memory: there, for those who want and may; else its copy in host memory. */
static bool give_from_gpu(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_session *session = cursor->sub->session;
    const struct amb_piece piece =
        amb_piece_of(entry, AMB_FRAME_MAP_LEASED, cursor->within, end - cursor->within);
    enum amb_mapping_state state = amb_deliver_in_gpu(cursor->sub, entry);
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
    uint8_t type = amb_piece_map_type(entry);
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
    const struct amb_piece piece = amb_piece_of(entry, type, cursor->within, count);
    return give_piece(cursor, entry, &piece);
}

bool amb_give_lazy(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_subscription *sub = cursor->sub;
    uint32_t first = cursor->within, count = end - first;
    const struct amb_piece piece = amb_lazy_piece(entry, first, count);
    uint64_t bytes = piece.meta_len + (sub->options.lazy == AMB_LAZY_PIN ? piece.data_len : 0);
    if (!is_ready(cursor, count, amb_lazy_bytes(sub, entry))) {
        return false;
    }
    if (!amb_lazy_has_room(sub, entry)) {
        amb_lazy_lack(sub, entry);
        return false;
    }
    if (!may_count(sub->session, entry) ||
        amb_lazy_deliver(sub, entry, first, count, bytes) != AMB_OK) {
        return false;
    }
    give_sent(cursor, entry, &piece, piece.meta_len);
    return true;
}
