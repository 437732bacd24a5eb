/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/lazy.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/delivery/reader/deliver.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "broker/topic/twin.h"
#include "wire/base/assert.h"

/* Of a leased segment, what may be kept from its publisher without being pinned. */
#define LEASED_SHARE 4u

struct amb_piece amb_lazy_piece(const struct amb_entry *entry, uint32_t first, uint32_t count)
{
    const struct amb_record *records = amb_entry_records(entry);
    uint32_t each = (uint32_t)sizeof(*records) + (entry->is_leased ? sizeof(uint64_t) : 0);
    struct amb_piece piece = amb_piece_of(entry, AMB_FRAME_LAZY, first, count);
    if (entry->meta_len == entry->count * each) {
        /* Without properties the records of a slice are a table themselves. */
        piece.total = count;
        piece.first = 0;
        piece.meta_len = count * (uint32_t)sizeof(*records);
        piece.data_len = amb_slice_data_between(entry, first, first + count);
        piece.meta = (const uint8_t *)(records + first);
    } else {
        piece.flags = entry->is_leased ? AMB_FRAME_FLAG_OFFSETS : AMB_FRAME_FLAG_NONE;
    }
    return piece;
}

/* ---- what is kept ---- */

static enum amb_lazy kind_of(const struct amb_subscription *sub)
{
    if (AMB_FAULT(PIN_STALE) && sub->options.lazy == AMB_LAZY_PIN) {
        return AMB_LAZY_ON;
    }
    bool is_pinned = sub->options.lazy == AMB_LAZY_ON && sub->taker != NULL;
    return is_pinned ? AMB_LAZY_PIN : sub->options.lazy;
}

static uint64_t session_room(const struct amb_session *session, const struct amb_entry *entry)
{
    return amb_session_map_room(session, entry->segment->gpu == NULL);
}

bool amb_lazy_has_room(const struct amb_subscription *sub, const struct amb_entry *entry)
{
    return kind_of(sub) != AMB_LAZY_PIN || sub->msgs_out == 0 ||
           amb_entry_charge(entry) <= session_room(sub->session, entry);
}

/* ---- no room in the user's quota ---- */

static void lack_until(struct amb_session *session)
{
    struct amb_shard *shard = session->shard;
    session->lack.due_ns = amb_deadline_ns(shard->now_ns, AMB_LAZY_PAUSE_NS);
    amb_list_push_back(&shard->lazy.lacking, &session->lack.node);
}

void amb_lazy_lack(struct amb_subscription *sub, const struct amb_entry *entry)
{
    struct amb_session *session = sub->session;
    struct amb_session_lack *lack = &session->lack;
    uint64_t bytes = amb_entry_charge(entry);
    if (session->purse == NULL || bytes <= amb_purse_map_room(session->purse)) {
        return; /* Its own deliveries make room when they come back. */
    }
    if (amb_list_is_empty(&lack->node)) {
        lack->bytes = bytes;
        lack_until(session);
    }
    lack->bytes = bytes < lack->bytes ? bytes : lack->bytes;
}

/* The one that is looked at next: all pauses are equally long. NULL: none lacks room. */
static struct amb_session *lacking_first(const struct amb_shard *shard)
{
    const struct amb_list_node *list = &shard->lazy.lacking;
    return amb_list_is_empty(list) ? NULL
                                   : AMB_CONTAINER_OF(list->next, struct amb_session, lack.node);
}

int64_t amb_lazy_due(struct amb_shard *shard)
{
    const struct amb_session *session = lacking_first(shard);
    return session == NULL ? INT64_MAX : session->lack.due_ns;
}

void amb_lazy_retry(struct amb_shard *shard)
{
    for (unsigned left = AMB_LAZY_RETRY_TURN; left > 0 && amb_lazy_due(shard) <= shard->now_ns;
         left--) {
        struct amb_session *session = lacking_first(shard);
        amb_list_remove(&session->lack.node);
        if (amb_list_is_empty(&session->stalled)) {
            continue; /* They have been woken by something else, or are gone. */
        }
        if (session->lack.bytes <= amb_purse_map_room(session->purse)) {
            amb_session_unstall(session);
        } else {
            lack_until(session);
        }
    }
}

/* ---- what is delivered ---- */

/* Room for one more payload that is not pinned; false: it is stale from the beginning. */
static bool make_room(struct amb_subscription *sub, const struct amb_entry *entry)
{
    uint64_t charge = amb_entry_charge(entry), most = sub->options.credit_bytes;
    uint64_t share = entry->segment->size / LEASED_SHARE;
    if (entry->is_leased && share < most) {
        most = share;
    }
    most = AMB_FAULT(STALE_EARLY) ? most / 4 : AMB_FAULT(KEPT_UNBOUNDED) ? UINT64_MAX : most;
    while ((sub->kept_bytes + charge > most || charge > session_room(sub->session, entry)) &&
           amb_subscription_drop_kept(sub)) {
    }
    return charge <=
           session_room(sub->session, entry); /* One always may, as far as its share goes. */
}

enum amb_status amb_lazy_deliver(struct amb_subscription *sub, struct amb_entry *entry,
                                 uint32_t first, uint32_t count, uint64_t bytes)
{
    enum amb_lazy kind = kind_of(sub);
    bool is_kept = kind == AMB_LAZY_PIN || (kind == AMB_LAZY_ON && make_room(sub, entry));
    enum amb_status status = amb_subscription_deliver(sub, count, bytes, is_kept ? entry : NULL);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_delivery *delivery = &sub->deliveries[sub->delivered & sub->mask];
    delivery->lazy = (uint8_t)kind;
    delivery->first = (uint16_t)first;
    if (is_kept && kind == AMB_LAZY_ON) {
        sub->kept_bytes += amb_entry_charge(entry);
        sub->session->shard->lazy.kept += amb_entry_charge(entry);
    }
    return AMB_OK;
}

/* ---- what is asked for ---- */

static void fetch_settled(struct amb_session *session, uint32_t handle, uint32_t opened)
{
    (void)handle;
    (void)opened;
    session->fetches--;
}

/* The answer of a FETCH. `entry`: of its data, kept until that is sent. */
static enum amb_status fetch_send(struct amb_session *session, const struct amb_frame *frame,
                                  const uint8_t *data, struct amb_entry *entry)
{
    amb_stat_add(&session->shard->stats->fetches, 1);
    if (AMB_FAULT(FETCH_LOST) && frame->seq % 8 == 0) {
        return AMB_OK;
    }
    entry = AMB_FAULT(FETCH_UNHELD) ? NULL : entry;
    if (AMB_FAULT(FETCH_TWICE) && frame->seq % 8 == 0 &&
        amb_outgoing_send(session, frame, data, NULL, entry) == AMB_ENOMEM) {
        return AMB_ENOMEM;
    }
    session->fetches++;
    enum amb_status sent = amb_outgoing_send_answer(session, frame, data, entry, fetch_settled);
    session->fetches -= sent != AMB_EAGAIN;
    return sent == AMB_ENOMEM ? sent : AMB_OK; /* Of a link that is down others tell. */
}

/* Its way: of one message, or a part of it. */
static void fetch_count(struct amb_session *session, const struct amb_entry *entry, uint64_t bytes,
                        bool is_copy)
{
    enum amb_path_class class = entry->is_of_gpu ? AMB_PATH_GPU : amb_path_class_of(1, bytes);
    enum amb_path_way way = entry->is_of_gpu ? AMB_PATH_STAGED
                            : is_copy        ? AMB_PATH_COPIED
                                             : AMB_PATH_IN_PLACE;
    amb_path_count(&session->paths.out, class, way, AMB_PATH_LAZY, 1, bytes,
                   session->shard->now_ns);
}

static enum amb_status fetch_answer(struct amb_session *session, const struct amb_frame *asked,
                                    enum amb_status status, const uint8_t *data,
                                    struct amb_entry *entry)
{
    const struct amb_frame frame = {
        .type = AMB_FRAME_FETCHED,
        .handle = asked->handle,
        .seq = asked->seq,
        .offset = asked->offset,
        .data_len = status == AMB_OK ? asked->data_len : 0,
        .status = (int32_t)status,
    };
    struct amb_shard_stats *stats = session->shard->stats;
    if (frame.data_len != 0) {
        fetch_count(session, entry, frame.data_len, true);
    }
    amb_stat_add(&stats->fetched_bytes, frame.data_len);
    amb_stat_add(&stats->fetches_stale, status == AMB_ESTALE);
    return fetch_send(session, &frame, data, entry);
}

/* Where a message's payload begins. */
static const uint8_t *payload_of(const struct amb_entry *entry, uint32_t index)
{
    if (entry->is_leased) {
        return entry->data + amb_leased_offsets(entry->meta, entry->count)[index];
    }
    return entry->data + amb_slice_data_between(entry, 0, index);
}

/* The whole payload in place; ENOTSUP: not for this client, or not yet. */
static enum amb_status fetch_map(struct amb_subscription *sub, const struct amb_frame *asked,
                                 struct amb_delivery *delivery)
{
    struct amb_session *session = sub->session;
    struct amb_entry *entry = delivery->entry;
    struct amb_segment *segment = entry->segment;
    uint32_t index = delivery->first + asked->first;
    bool is_foreign = entry->is_leased && !amb_deliver_is_trusted(session, entry);
    if (!session->may_map || sub->options.copy || segment->gpu != NULL || is_foreign ||
        amb_entry_records(entry)[index].len == 0 ||
        amb_session_mapping_of(session, segment) != AMB_MAPPING_READY) {
        return fetch_answer(session, asked, AMB_ENOTSUP, NULL, NULL);
    }
    const struct amb_frame frame = {
        .type = AMB_FRAME_FETCHED_MAP,
        .handle = asked->handle,
        .seq = asked->seq,
        .segment = segment->id,
        .offset = (uint64_t)(payload_of(entry, index) - segment->base),
        .data_len = amb_entry_records(entry)[index].len,
    };
    if (!AMB_FAULT(MAP_STALE)) {
        amb_subscription_keep_mapped(sub, delivery);
    }
    fetch_count(session, entry, frame.data_len, false);
    return fetch_send(session, &frame, NULL, NULL);
}

static enum amb_status why_no_twin(const struct amb_entry *entry)
{
    switch (entry->twin_state) {
    case AMB_TWIN_COMING:
        return AMB_EAGAIN; /* Asked again, by then it has come. */
    case AMB_TWIN_NO_MEMORY:
        return AMB_ENOMEM; /* Asked again, there may be some. */
    default:
        return AMB_ECUDA;
    }
}

static enum amb_status fetch_from(struct amb_session *session, const struct amb_frame *frame,
                                  struct amb_entry *entry, uint32_t index)
{
    uint64_t len = amb_entry_records(entry)[index].len;
    if (frame->offset > len || frame->data_len > len - frame->offset) {
        return amb_session_broken(session, "the client asks for more than a message has");
    }
    if (entry->segment->gpu != NULL) {
        struct amb_entry *twin = amb_twin_get(session->shard, entry);
        if (twin == NULL) {
            return fetch_answer(session, frame, why_no_twin(entry), NULL, NULL);
        }
        entry = twin;
    }
    uint64_t at = frame->offset;
    at -= AMB_FAULT(FETCH_SHIFTED) && at >= AMB_PAYLOAD_PAD ? AMB_PAYLOAD_PAD : 0;
    return fetch_answer(session, frame, AMB_OK, payload_of(entry, index) + at, entry);
}

enum amb_status amb_lazy_fetch(struct amb_session *session, const struct amb_frame *frame)
{
    struct amb_subscription *sub = amb_session_subscription(session, frame->handle);
    if (session->fetches >= AMB_LAZY_FETCHES_MAX) {
        return amb_session_broken(session, "the client asks for more than it reads");
    }
    if (sub == NULL) { /* Unsubscribed while this was under way. */
        session->frames_ignored++;
        return fetch_answer(session, frame, AMB_ESTALE, NULL, NULL);
    }
    if (frame->number <= sub->released) {
        /* A release may overtake; or it was another subscription's, which had this handle. */
        return fetch_answer(session, frame, AMB_ESTALE, NULL, NULL);
    }
    if (frame->number > sub->delivered || sub->options.lazy == AMB_LAZY_OFF ||
        sub->options.lazy == AMB_LAZY_HEADERS) {
        return amb_session_broken(session, "the client asks for what it was not given");
    }
    struct amb_delivery *delivery = &sub->deliveries[frame->number & sub->mask];
    if (delivery->is_released) {
        return fetch_answer(session, frame, AMB_ESTALE, NULL, NULL);
    }
    if (delivery->lazy == AMB_LAZY_OFF || frame->first >= delivery->msgs) {
        return amb_session_broken(session, "the client asks for what it was not given");
    }
    if (delivery->entry == NULL) {
        return fetch_answer(session, frame, AMB_ESTALE, NULL, NULL);
    }
    if (frame->data_len == 0) {
        return fetch_map(sub, frame, delivery);
    }
    struct amb_entry *entry = delivery->entry;
    amb_entry_ref(entry); /* Room for a twin may be made by dropping this very delivery. */
    uint32_t before = AMB_FAULT(FETCH_NEIGHBOUR) ? 0 : delivery->first;
    enum amb_status status = fetch_from(session, frame, entry, before + frame->first);
    amb_entry_unref(entry, session->shard);
    return status;
}
