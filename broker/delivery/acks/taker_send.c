/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/taker_send.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/acks/taker_seat.h"
#include "broker/delivery/reader/deliver.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/piece.h"
#include "broker/delivery/reader/traced_delivery.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "broker/shard/tally.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"
#include "wire/base/clock.h"

/* The taker's worker wakes then, if not before. */
static void taker_wake_by(struct amb_taker *taker, int64_t due_ns)
{
    if (due_ns < taker->shard->takers.due_ns) {
        taker->shard->takers.due_ns = due_ns;
    }
}

/* No memory, or a limit is reached. Another worker may free some, and wakes nobody. */
static void taker_pause(struct amb_taker *taker)
{
    struct amb_shard_takers *takers = &taker->shard->takers;
    int64_t retry_ns = amb_deadline_ns(taker->shard->now_ns, AMB_TAKE_PAUSE_NS);
    takers->retry_ns = retry_ns < takers->retry_ns ? retry_ns : takers->retry_ns;
}

static bool taker_tell(struct amb_taker *taker, const struct amb_topic *topic)
{
    struct amb_session *session = taker->sub->session;
    struct amb_session_name *name;
    enum amb_status status =
        amb_session_name_create(&session->names, topic->name, topic->name_len, &name);
    if (status == AMB_ELIMIT) {
        amb_session_end_heap(session);
    }
    if (status != AMB_OK) {
        return false;
    }
    if (amb_idmap_put(&taker->told, &name->node, topic->id) != AMB_OK) {
        amb_session_name_drop(&session->names, name);
        return false;
    }
    if (amb_piece_name(taker->sub, topic, name->name, &name->naming) != AMB_OK) {
        amb_idmap_remove(&taker->told, &name->node);
        amb_session_name_drop(&session->names, name);
        return false;
    }
    return true;
}

/* By copy: as little of the batch as makes a body. */
static struct amb_piece take_copy(const struct amb_take *take, const struct amb_entry *entry)
{
    const struct amb_record *records = amb_entry_records(entry);
    struct amb_piece piece = amb_piece_of(entry, AMB_FRAME_DELIVER, take->first, take->count);
    if (entry->is_leased) {
        struct amb_body_iter iter;
        struct amb_message_view view;
        const uint8_t *single = entry->singles;
        amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
        for (uint32_t i = 0; amb_body_iter_next(&iter, &view) && i < take->first; i++) {
            single += single == NULL ? 0 : sizeof(*records) + amb_props_padded(view.props_len);
        }
        return amb_piece_single(entry, take->first, &view, single);
    }
    if (entry->meta_len == entry->count * sizeof(*records)) {
        /* Without properties the slice is a body itself. */
        piece.total = take->count;
        piece.first = 0;
        piece.meta_len = take->count * (uint32_t)sizeof(*records);
        piece.data_len = amb_slice_data_between(entry, take->first, take->first + take->count);
        piece.data = entry->data + amb_slice_data_between(entry, 0, take->first);
        piece.meta = (const uint8_t *)&records[take->first];
    }
    return piece;
}

/* It comes once more, or somebody wants to know what becomes of it. */
static __attribute__((noinline)) void take_note(struct amb_taker *taker,
                                                const struct amb_take *take,
                                                const struct amb_entry *entry,
                                                const struct amb_piece *piece)
{
    taker->redelivered += take->attempt > 0 ? take->count : 0;
    if (take->tally != NULL && take->tally->ticket != 0) {
        amb_traced_delivery_written(taker->sub, entry, piece, take->tally->ticket);
    }
}

static void take_send(struct amb_taker *taker, const struct amb_take *take, struct amb_entry *entry,
                      bool is_map)
{
    struct amb_subscription *sub = taker->sub;
    bool is_lazy = sub->options.lazy != AMB_LAZY_OFF;
    const struct amb_piece piece =
        is_map    ? amb_piece_of(entry, amb_piece_map_type(entry), take->first, take->count)
        : is_lazy ? amb_lazy_piece(entry, take->first, take->count)
                  : take_copy(take, entry);
    struct amb_frame frame = amb_piece_frame(&piece, entry, sub, entry->topic);
    frame.attempt = take->attempt;
    frame.lost = take->lost;
    frame.status = (int32_t)take->loss;
    if (take->lost != UINT64_MAX) { /* Nobody knows how many then. */
        sub->lost += take->lost;
        sub->lost_by[take->loss] += take->lost;
    }
    amb_piece_send(sub->session, &frame, &piece, entry);
    if (__builtin_expect(take->is_noted, 0)) {
        take_note(taker, take, entry, &piece);
    }
    amb_deliver_count(sub, entry, piece.type, take->count, take->bytes);
}

/* A member that acknowledges soon and releases late is not to hold memory without end. */
static bool taker_has_room(const struct amb_taker *taker, const struct amb_take *take)
{
    const struct amb_subscription *sub = taker->sub;
    const struct amb_subscription_options *options = &sub->options;
    return amb_session_has_room(sub->session) &&
           (sub->msgs_out == 0 || (sub->msgs_out + take->count <= 2 * options->credit_msgs &&
                                   sub->bytes_out + take->bytes <= 2 * options->credit_bytes));
}

/* Its way. A batch in GPU memory goes there for those who want and may. Else it goes as its copy in
 * host memory, which *entry then is. NULL: there will be none. */
static enum amb_deliver_way taker_way(struct amb_taker *taker, struct amb_entry **entry)
{
    const struct amb_subscription *sub = taker->sub;
    if ((*entry)->segment->gpu == NULL) {
        return amb_deliver_way(sub, *entry);
    }
    enum amb_mapping_state state = amb_deliver_in_gpu(sub, *entry);
    amb_seat_in_place(taker, (*entry)->segment->gpu,
                      state == AMB_MAPPING_READY || state == AMB_MAPPING_ASKED);
    if (state == AMB_MAPPING_READY || state == AMB_MAPPING_ASKED) {
        return state == AMB_MAPPING_READY ? AMB_DELIVER_MAP : AMB_DELIVER_WAIT;
    }
    struct amb_entry *twin = amb_twin_get(sub->session->shard, *entry);
    if (twin == NULL && (*entry)->twin_state < AMB_TWIN_FAILED) {
        return AMB_DELIVER_WAIT;
    }
    *entry = twin;
    return twin == NULL ? AMB_DELIVER_COPY : amb_deliver_way(sub, twin);
}

/* It is the next delivery. False: no memory, or past a limit; nothing has happened. */
static bool taker_book(struct amb_taker *taker, struct amb_take *take, struct amb_entry *entry,
                       bool is_map, bool is_acked)
{
    struct amb_subscription *sub = taker->sub;
    if (is_acked && amb_idmap_put(&taker->known, &take->known, sub->delivered + 1) != AMB_OK) {
        return false;
    }
    enum amb_status status =
        sub->options.lazy != AMB_LAZY_OFF
            ? amb_lazy_deliver(sub, entry, take->first, take->count, take->bytes)
            : amb_subscription_deliver(sub, take->count, take->bytes, is_map ? entry : NULL);
    if (status != AMB_OK && is_acked) {
        amb_idmap_remove(&taker->known, &take->known);
    }
    return status == AMB_OK;
}

bool amb_taker_send(struct amb_taker *taker, struct amb_take *take)
{
    struct amb_subscription *sub = taker->sub;
    if (!taker_has_room(taker, take)) {
        return false;
    }
    if (amb_idmap_find(&taker->told, take->lent->topic) == NULL &&
        !taker_tell(taker, take->topic)) {
        taker_pause(taker);
        return false;
    }
    struct amb_entry *entry = take->lent;
    bool is_lazy = sub->options.lazy != AMB_LAZY_OFF;
    if (is_lazy && !amb_lazy_has_room(sub, entry)) {
        if (sub->session->purse != NULL) {
            taker_pause(taker); /* The quota of its user may be used up. */
        }
        return false;
    }
    enum amb_deliver_way way = is_lazy ? AMB_DELIVER_COPY : taker_way(taker, &entry);
    bool is_map = way == AMB_DELIVER_MAP;
    if (way == AMB_DELIVER_WAIT) {
        return false;
    }
    if (entry == NULL) { /* It cannot be brought to this member. */
        amb_list_remove(&take->node);
        amb_seat_back(taker, take->left, take->bytes);
        amb_seat_go_home(taker, take, AMB_TAKE_EXPIRED);
        return true;
    }
    /* One whose publisher waits for its delivery is kept until it is released. */
    bool is_acked = taker->ack != AMB_ACK_NONE || take->tally != NULL;
    if (!taker_book(taker, take, entry, is_map, is_acked)) {
        taker_pause(taker);
        return false;
    }
    take_send(taker, take, entry, is_map);
    amb_list_remove(&take->node);
    take->number = sub->delivered;
    if (!is_acked) {
        amb_seat_go_home(taker, take, AMB_TAKE_SETTLED);
        return true;
    }
    int64_t wait_ns = AMB_FAULT(ACK_WAIT_SHORT) ? taker->ack_wait_ns / 2 : taker->ack_wait_ns;
    take->due_ns =
        taker->ack == AMB_ACK_NONE ? INT64_MAX : amb_deadline_ns(taker->shard->now_ns, wait_ns);
    taker_wake_by(taker, take->due_ns);
    amb_list_push_back(&taker->pending, &take->node);
    return true;
}
