/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/taker.h"

#include "broker/base/fault.h"
#include "broker/delivery/reader/deliver.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* The queue looks at the seat anew. */
static void seat_kick(struct amb_shard *shard, struct amb_seat *seat)
{
    if (atomic_exchange(&seat->is_kicked, 1) == 0) {
        amb_take_post(shard, seat->home, &seat->kick, seat->on_kick);
    }
}

/* Credit comes back. */
static void taker_back(struct amb_taker *taker, uint64_t msgs, uint64_t bytes)
{
    struct amb_seat *seat = taker->seat;
    if (seat == NULL || msgs == 0) {
        return;
    }
    uint64_t had_msgs = atomic_load_explicit(&seat->back_msgs, memory_order_relaxed);
    uint64_t had_bytes = atomic_load_explicit(&seat->back_bytes, memory_order_relaxed);
    atomic_store_explicit(&seat->back_bytes, had_bytes + bytes, memory_order_relaxed);
    /* Release: pairs with the queue's look. */
    atomic_store_explicit(&seat->back_msgs, had_msgs + msgs, memory_order_release);
    seat_kick(taker->shard, seat);
}

#define EXPIRE_BUDGET 1024u /* takes that go home in one turn */
/* With its seat. */
#define TAKER_HEAP                                                                                 \
    (sizeof(struct amb_taker) + sizeof(struct amb_seat) + 2 * (uint64_t)AMB_HEAP_OVERHEAD)
/* What the heap is charged for a take, which lives as long as its member has it. */
#define TAKE_HEAP (sizeof(struct amb_take) + AMB_HEAP_OVERHEAD)

/* Takes may have half of a session's heap: then no more are given, and those that were under way
 * have the other half. */
static bool taker_is_full(const struct amb_taker *taker)
{
    const struct amb_heap_account *heap = &taker->sub->session->heap;
    return heap->bytes > heap->limit / 2;
}

static void taker_judge(struct amb_taker *taker)
{
    struct amb_seat *seat = taker->seat;
    bool is_full = taker_is_full(taker);
    if (seat == NULL ||
        __builtin_expect(atomic_load_explicit(&seat->is_full, memory_order_relaxed) == is_full,
                         1)) {
        return;
    }
    atomic_store_explicit(&seat->is_full, is_full, memory_order_relaxed);
    if (!is_full) {
        seat_kick(taker->shard, seat);
    }
}

static void taker_charge(struct amb_taker *taker)
{
    struct amb_session *session = taker->sub->session;
    amb_heap_take(&session->heap, TAKE_HEAP);
    taker_judge(taker);
    if (__builtin_expect(session->heap.bytes > session->heap.limit, 0)) {
        amb_session_end_heap(session);
    }
}

static void taker_leave(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end)
{
    amb_heap_give(&taker->sub->session->heap, TAKE_HEAP);
    taker_judge(taker);
    amb_take_go_home(taker->shard, take, end);
}

static void taker_rouse(struct amb_taker *taker)
{
    if (amb_list_is_empty(&taker->busy) && !amb_list_is_empty(&taker->waiting)) {
        amb_list_push_back(&taker->shard->busy_takers, &taker->busy);
    }
}

/* Sending ------------------------------------------------------------------------------------- */

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
    const struct amb_frame frame = {
        .type = AMB_FRAME_TOPIC,
        .handle = taker->sub->handle,
        .topic = topic->id,
        .count = topic->priority,
        .data_len = topic->name_len,
    };
    if (amb_idmap_put(&taker->told, &name->node, topic->id) != AMB_OK) {
        amb_session_name_drop(&session->names, name);
        return false;
    }
    if (amb_outgoing_send_name(session, &frame, name->name, &name->naming) != AMB_OK) {
        amb_idmap_remove(&taker->told, &name->node);
        amb_session_name_drop(&session->names, name);
        return false;
    }
    return true;
}

/* The frame of a take by copy, and its body: as little of the batch as makes a body. */
static void take_copy(const struct amb_take *take, const struct amb_entry *entry,
                      struct amb_frame *frame, const uint8_t **data, const uint8_t **meta)
{
    const struct amb_record *records = (const void *)entry->meta;
    frame->type = AMB_FRAME_DELIVER;
    *data = entry->data;
    *meta = entry->meta;
    if (entry->is_leased) {
        struct amb_body_iter iter;
        struct amb_message_view view;
        const uint8_t *single = entry->singles;
        amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
        for (uint32_t i = 0; amb_body_iter_next(&iter, &view) && i < take->first; i++) {
            single += single == NULL ? 0 : sizeof(*records) + amb_props_padded(view.props_len);
        }
        frame->meta_len = (uint32_t)sizeof(*records) + amb_props_padded(view.props_len);
        frame->data_len = amb_payload_padded(view.len);
        *data = view.payload;
        *meta = single != NULL ? single : (const uint8_t *)&records[take->first];
        frame->count = 1;
        frame->first = frame->rest = 0;
    } else if (entry->meta_len == entry->count * sizeof(*records)) {
        /* Without properties the slice is a body itself. */
        uint64_t before = 0, len = 0;
        for (uint32_t i = 0; i < take->first; i++) {
            before += amb_payload_padded(records[i].len);
        }
        for (uint32_t i = take->first; i < take->first + take->count; i++) {
            len += amb_payload_padded(records[i].len);
        }
        *data = entry->data + before;
        *meta = (const uint8_t *)&records[take->first];
        frame->data_len = len;
        frame->meta_len = take->count * (uint32_t)sizeof(*records);
        frame->count = take->count;
        frame->first = frame->rest = 0;
    }
}

static void take_send(struct amb_taker *taker, const struct amb_take *take, struct amb_entry *entry,
                      bool is_map)
{
    struct amb_subscription *sub = taker->sub;
    struct amb_session *session = sub->session;
    const uint8_t *data = NULL, *meta = NULL;
    struct amb_frame frame = {
        .type = entry->is_leased ? AMB_FRAME_MAP_LEASED : AMB_FRAME_MAP,
        .handle = sub->handle,
        .topic = entry->topic,
        .count = entry->count,
        .first = take->first,
        .rest = entry->count - take->first - take->count,
        .attempt = take->attempt,
        .meta_len = entry->meta_len,
        .data_len = entry->data_len,
        .seq = entry->first_seq + take->first,
        .number = sub->delivered,
        .lost = take->lost,
        .status = (int32_t)take->loss,
        .time_ns = entry->time_ns,
        .above = entry->above,
    };
    if (is_map) {
        frame.segment = entry->segment->id;
        meta = entry->is_leased ? entry->meta : NULL;
        frame.offset = entry->is_leased ? 0 : (uint64_t)(entry->data - entry->segment->base);
    } else if (sub->options.lazy != AMB_LAZY_OFF) {
        amb_lazy_cut(entry, take->first, take->count, &frame, &meta);
    } else {
        take_copy(take, entry, &frame, &data, &meta);
    }
    sub->lost += take->lost;
    if (amb_outgoing_send(session, &frame, data, meta, meta == NULL ? NULL : entry) == AMB_ENOMEM) {
        /* A number was given and is missing: only the end of the session repairs that. */
        session->shard->session_ended(session->shard, session->client_id, AMB_ENOMEM,
                                      "no memory for a delivery");
    }
    amb_deliver_count(session, !is_map, take->count, take->bytes);
}

/* Whoever acknowledges soon and releases late is not to hold memory without end. */
static bool taker_has_room(const struct amb_taker *taker, const struct amb_take *take)
{
    const struct amb_subscription *sub = taker->sub;
    const struct amb_subscription_options *options = &sub->options;
    return amb_session_has_room(sub->session) &&
           (sub->msgs_out == 0 || (sub->msgs_out + take->count <= 2 * options->credit_msgs &&
                                   sub->bytes_out + take->bytes <= 2 * options->credit_bytes));
}

/* How it goes; a batch in GPU memory there for those who want and may, else as its copy in host
 * memory, which *entry then is. NULL: there will be none. */
static enum amb_deliver_way taker_way(const struct amb_taker *taker, struct amb_entry **entry)
{
    const struct amb_subscription *sub = taker->sub;
    struct amb_session *session = sub->session;
    if ((*entry)->segment->gpu == NULL) {
        return amb_deliver_way(sub, *entry);
    }
    enum amb_mem mem = sub->options.mem;
    if ((mem == AMB_MEM_CUDA || mem == AMB_MEM_AS_SENT) && amb_deliver_may_keep(session, *entry)) {
        enum amb_mapping_state state = amb_session_mapping_of(session, (*entry)->segment);
        if (state == AMB_MAPPING_READY || state == AMB_MAPPING_ASKED) {
            return state == AMB_MAPPING_READY ? AMB_DELIVER_MAP : AMB_DELIVER_WAIT;
        }
    }
    struct amb_entry *twin = amb_twin_get(session->shard, *entry);
    if (twin == NULL && (*entry)->twin_state < AMB_TWIN_FAILED) {
        return AMB_DELIVER_WAIT;
    }
    *entry = twin;
    return twin == NULL ? AMB_DELIVER_COPY : amb_deliver_way(sub, twin);
}

/* False: not now. */
static bool taker_send(struct amb_taker *taker, struct amb_take *take)
{
    struct amb_subscription *sub = taker->sub;
    if (!taker_has_room(taker, take) || (amb_idmap_find(&taker->told, take->lent->topic) == NULL &&
                                         !taker_tell(taker, take->topic))) {
        return false;
    }
    struct amb_entry *entry = take->lent;
    bool is_lazy = sub->options.lazy != AMB_LAZY_OFF;
    if (is_lazy && !amb_lazy_has_room(sub, entry)) {
        return false;
    }
    enum amb_deliver_way way = is_lazy ? AMB_DELIVER_COPY : taker_way(taker, &entry);
    bool is_map = way == AMB_DELIVER_MAP;
    if (way == AMB_DELIVER_WAIT) {
        return false;
    }
    if (entry == NULL) { /* It cannot be brought to this member. */
        amb_list_remove(&take->node);
        taker_back(taker, take->left, take->bytes);
        taker_leave(taker, take, AMB_TAKE_EXPIRED);
        return true;
    }
    /* One whose publisher waits for its delivery is kept until it is released. */
    bool is_acked = taker->ack != AMB_ACK_NONE || take->tally != NULL;
    if (is_acked && amb_idmap_put(&taker->known, &take->known, sub->delivered + 1) != AMB_OK) {
        return false;
    }
    enum amb_status noted =
        is_lazy ? amb_lazy_deliver(sub, entry, take->first, take->count, take->bytes)
                : amb_subscription_deliver(sub, take->count, take->bytes, is_map ? entry : NULL);
    if (noted != AMB_OK) {
        if (is_acked) {
            amb_idmap_remove(&taker->known, &take->known);
        }
        return false;
    }
    take_send(taker, take, entry, is_map);
    amb_list_remove(&take->node);
    taker->redelivered += take->attempt > 0 ? take->count : 0;
    take->number = sub->delivered;
    if (!is_acked) {
        taker_leave(taker, take, AMB_TAKE_SETTLED);
        return true;
    }
    int64_t wait_ns = AMB_FAULT(ACK_WAIT_SHORT) ? taker->ack_wait_ns / 2 : taker->ack_wait_ns;
    take->due_ns =
        taker->ack == AMB_ACK_NONE ? INT64_MAX : amb_deadline_ns(taker->shard->now_ns, wait_ns);
    if (take->due_ns < taker->shard->take_due_ns) {
        taker->shard->take_due_ns = take->due_ns;
    }
    amb_list_push_back(&taker->pending, &take->node);
    return true;
}

/* What comes back ----------------------------------------------------------------------------- */

static void take_forget(struct amb_taker *taker, struct amb_take *take)
{
    amb_list_remove(&take->node);
    amb_idmap_remove(&taker->known, &take->known);
}

/* All of it is settled, or it is given up for the reason. */
static void take_end(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end)
{
    take_forget(taker, take);
    taker_back(taker, take->left, take->bytes);
    taker_leave(taker, take, end);
}

/* A part of it goes home ahead. Without memory it stays, and expires. */
static uint32_t take_cut(struct amb_taker *taker, struct amb_take *take, uint32_t first,
                         const struct amb_frame *frame, const char *reason)
{
    struct amb_take *cut = amb_take_get(taker->shard);
    if (cut == NULL) {
        return 0;
    }
    uint32_t cleared = amb_take_clear(take, first, frame->count, cut);
    if (cleared == 0) {
        amb_take_put(taker->shard, cut);
        return 0;
    }
    cut->home = take->home;
    cut->queue = take->queue;
    cut->come_home = take->come_home;
    cut->of = take;
    cut->to = take->to;
    cut->delay_ns = frame->time_ns;
    cut->reason = reason == NULL ? NULL : strdup(reason);
    bool is_nak = frame->status == AMB_ACK_KIND_NAK;
    *(is_nak ? &taker->naked : &taker->termed) += cleared;
    taker_back(taker, cleared, cut->bytes);
    amb_take_go_home(taker->shard, cut, is_nak ? AMB_TAKE_NAK : AMB_TAKE_TERM);
    return cleared;
}

static uint32_t take_settle(struct amb_taker *taker, struct amb_take *take, uint32_t first,
                            uint32_t count)
{
    uint64_t bytes = take->bytes;
    uint32_t cleared = amb_take_clear(take, first, count, NULL);
    taker->acked += cleared;
    take->acked += cleared;
    taker_back(taker, cleared, bytes - take->bytes);
    return cleared;
}

/* Its time begins anew; of cumulative ones that of all, for they stay in order: said once, however
 * many they are, for what is sent later is due later. */
static void take_prolong(struct amb_taker *taker, struct amb_take *take)
{
    int64_t due_ns = amb_deadline_ns(taker->shard->now_ns, taker->ack_wait_ns);
    if (taker->ack != AMB_ACK_CUMULATIVE) {
        take->due_ns = due_ns;
        amb_list_remove(&take->node);
        amb_list_push_back(&taker->pending, &take->node);
        return;
    }
    taker->prolonged_ns = due_ns;
}

/* A cumulative ACK says it of all deliveries before this one, too. */
static void taker_settle_before(struct amb_taker *taker, uint64_t number)
{
    AMB_LIST_FOR_EACH_SAFE (node, &taker->pending) {
        struct amb_take *take = AMB_CONTAINER_OF(node, struct amb_take, node);
        if (take->number >= number) {
            return;
        }
        (void)take_settle(taker, take, take->first, take->count);
        take_end(taker, take, AMB_TAKE_SETTLED);
    }
}

static enum amb_status taker_apply(struct amb_taker *taker, const struct amb_frame *frame,
                                   const char *reason)
{
    bool is_up_to = taker->ack == AMB_ACK_CUMULATIVE && frame->status == AMB_ACK_KIND_ACK;
    if (is_up_to) {
        taker_settle_before(taker, frame->number);
    }
    struct amb_idmap_node *node = amb_idmap_find(&taker->known, frame->number);
    if (node == NULL) {
        taker->late += frame->count; /* Settled already, or it has expired. */
        return AMB_OK;
    }
    struct amb_take *take = AMB_CONTAINER_OF(node, struct amb_take, known);
    if (frame->first + frame->count > take->count) {
        return amb_session_broken(taker->sub->session,
                                  "the client acknowledges what it was not given");
    }
    uint32_t first = take->first + frame->first, done = frame->count;
    switch ((enum amb_ack_kind)frame->status) {
    case AMB_ACK_KIND_ACK:
        if (AMB_FAULT(ACK_IGNORED) && frame->number % 8 == 0) {
            return AMB_OK;
        }
        done = is_up_to ? take_settle(taker, take, take->first, frame->first + frame->count)
                        : take_settle(taker, take, first, frame->count);
        break;
    case AMB_ACK_KIND_NAK:
    case AMB_ACK_KIND_TERM:
        done = take_cut(taker, take, first, frame, reason);
        break;
    case AMB_ACK_KIND_IN_PROGRESS:
        take_prolong(taker, take);
        break;
    }
    taker->late += done < frame->count ? frame->count - done : 0;
    if (take->left == 0) {
        take_end(taker, take, AMB_TAKE_SETTLED);
    }
    return AMB_OK;
}

static struct amb_taker_waiter *taker_next_waiter(struct amb_taker *taker)
{
    AMB_LIST_FOR_EACH (node, &taker->waiters) {
        struct amb_taker_waiter *waiter = AMB_CONTAINER_OF(node, struct amb_taker_waiter, node);
        if (waiter->frames <= taker->frames) {
            return waiter;
        }
    }
    return NULL;
}

static void taker_tell_waiters(struct amb_taker *taker)
{
    struct amb_subscription *sub = taker->sub;
    struct amb_subscription *const *slot = &sub->session->subscriptions[sub->handle];
    struct amb_taker_waiter *waiter;
    while ((waiter = taker_next_waiter(taker)) != NULL) {
        amb_list_remove(&waiter->node);
        taker->waiter_count--;
        waiter->done(waiter, sub);
        if (*slot == NULL) {
            return; /* It was waited for with its end. */
        }
    }
}

enum amb_status amb_taker_ack(struct amb_session *session, const struct amb_frame *frame,
                              const char *reason)
{
    struct amb_subscription *sub = session->subscriptions[frame->handle];
    if (sub == NULL || sub->has_ended) {
        session->frames_ignored++;
        return AMB_OK;
    }
    struct amb_taker *taker = sub->taker;
    if (taker == NULL || taker->ack == AMB_ACK_NONE) {
        return amb_session_broken(session, "the client acknowledges where nobody asked for it");
    }
    if (frame->number > sub->delivered) {
        return amb_session_broken(session, "the client acknowledges what it was not given");
    }
    taker->frames++;
    enum amb_status status = taker_apply(taker, frame, reason);
    if (!amb_list_is_empty(&taker->waiters)) {
        taker_tell_waiters(taker);
    }
    return status;
}

enum amb_status amb_taker_wait(struct amb_taker *taker, struct amb_taker_waiter *waiter)
{
    if (waiter->frames <= taker->frames) {
        waiter->done(waiter, taker->sub);
        return AMB_OK;
    }
    if (taker->waiter_count == AMB_TAKER_WAITERS_MAX) {
        return AMB_ELIMIT;
    }
    taker->waiter_count++;
    amb_list_push_back(&taker->waiters, &waiter->node);
    return AMB_OK;
}

void amb_taker_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_take *take = AMB_CONTAINER_OF(mail, struct amb_take, mail);
    struct amb_session *session = amb_session_find(shard, take->to.session, take->to.generation);
    struct amb_subscription *sub = session == NULL ? NULL : session->subscriptions[take->to.handle];
    if (sub == NULL || sub->id != take->to.sub || sub->taker == NULL || sub->taker->seat == NULL) {
        amb_take_go_home(shard, take, AMB_TAKE_UNSENT);
        return;
    }
    amb_list_push_back(&sub->taker->waiting, &take->node);
    taker_charge(sub->taker);
    taker_rouse(sub->taker);
}

/* *budget: so many may expire this turn; the others in the next. */
static void taker_expire(struct amb_taker *taker, unsigned *budget, int64_t *next_ns)
{
    while (!amb_list_is_empty(&taker->pending)) {
        struct amb_take *take = AMB_CONTAINER_OF(taker->pending.next, struct amb_take, node);
        int64_t due_ns = take->due_ns > taker->prolonged_ns ? take->due_ns : taker->prolonged_ns;
        if (due_ns > taker->shard->now_ns || *budget == 0) {
            *next_ns = due_ns < *next_ns ? due_ns : *next_ns;
            return;
        }
        --*budget;
        taker->expired += take->left;
        take_end(taker, take, AMB_TAKE_EXPIRED);
    }
}

unsigned amb_takers_run(struct amb_shard *shard)
{
    unsigned done = 0;
    if (shard->now_ns >= shard->take_due_ns) {
        int64_t next_ns = INT64_MAX;
        unsigned budget = EXPIRE_BUDGET;
        AMB_LIST_FOR_EACH (node, &shard->takers) {
            taker_expire(AMB_CONTAINER_OF(node, struct amb_taker, node), &budget, &next_ns);
        }
        shard->take_due_ns = next_ns;
    }
    AMB_LIST_FOR_EACH_SAFE (node, &shard->busy_takers) {
        struct amb_taker *taker = AMB_CONTAINER_OF(node, struct amb_taker, busy);
        AMB_LIST_FOR_EACH_SAFE (take_node, &taker->waiting) {
            if (!taker_send(taker, AMB_CONTAINER_OF(take_node, struct amb_take, node))) {
                break;
            }
            done++;
        }
        if (amb_list_is_empty(&taker->waiting)) {
            amb_list_remove(&taker->busy);
        }
    }
    return done;
}

uint64_t amb_taker_pending(const struct amb_taker *taker)
{
    uint64_t msgs = 0;
    AMB_LIST_FOR_EACH (node, &taker->pending) {
        msgs += AMB_CONTAINER_OF(node, struct amb_take, node)->left;
    }
    return msgs;
}

/* Life ---------------------------------------------------------------------------------------- */

void amb_taker_stop(struct amb_taker *taker)
{
    struct amb_seat *seat = taker->seat;
    if (seat == NULL) {
        return;
    }
    taker->seat = NULL;
    taker->sub->session->takers--;
    amb_list_remove(&taker->busy);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&taker->waiting)) != NULL) {
        taker_leave(taker, AMB_CONTAINER_OF(node, struct amb_take, node), AMB_TAKE_UNSENT);
    }
    amb_take_post(taker->shard, seat->home, &seat->leave, seat->on_leave);
}

/* What it has and did not settle goes home too, the oldest first. */
static void taker_detached(struct amb_subscription *sub)
{
    struct amb_taker *taker = sub->taker;
    amb_taker_stop(taker);
    amb_list_remove(&taker->node);
    if (taker->ack == AMB_ACK_NONE) {
        return; /* They come no second time, and may be released yet. */
    }
    AMB_LIST_FOR_EACH_SAFE (node, &taker->pending) {
        take_end(taker, AMB_CONTAINER_OF(node, struct amb_take, node), AMB_TAKE_LEFT);
    }
}

static void taker_released(struct amb_subscription *sub, uint64_t number,
                           const struct amb_delivery *delivery)
{
    struct amb_taker *taker = sub->taker;
    if (taker->ack != AMB_ACK_NONE) {
        return;
    }
    taker_back(taker, delivery->msgs, delivery->bytes);
    struct amb_idmap_node *node =
        taker->known.count == 0 ? NULL : amb_idmap_find(&taker->known, number);
    if (node != NULL) {
        struct amb_take *take = AMB_CONTAINER_OF(node, struct amb_take, known);
        take->acked = take->left;
        take_forget(taker, take);
        taker_leave(taker, take, AMB_TAKE_SETTLED);
    }
}

static void taker_destroyed(struct amb_subscription *sub)
{
    struct amb_taker *taker = sub->taker;
    amb_assert(taker->seat == NULL);
    struct amb_idmap_node *node;
    struct amb_list_node *list_node;
    AMB_LIST_FOR_EACH_SAFE (pending, &taker->pending) {
        take_end(taker, AMB_CONTAINER_OF(pending, struct amb_take, node), AMB_TAKE_SETTLED);
    }
    while ((node = amb_idmap_any(&taker->told)) != NULL) {
        amb_idmap_remove(&taker->told, node);
        amb_session_name_drop(&sub->session->names,
                              AMB_CONTAINER_OF(node, struct amb_session_name, node));
    }
    amb_idmap_fini(&taker->told);
    amb_idmap_fini(&taker->known);
    while ((list_node = amb_list_pop_front(&taker->waiters)) != NULL) {
        struct amb_taker_waiter *waiter =
            AMB_CONTAINER_OF(list_node, struct amb_taker_waiter, node);
        waiter->done(waiter, NULL); /* The session was the first to end. */
    }
    amb_heap_give(&sub->session->heap, TAKER_HEAP);
    free(taker);
}

static const struct amb_subscription_hooks taker_hooks = {
    .detached = taker_detached,
    .released = taker_released,
    .destroyed = taker_destroyed,
};

enum amb_status amb_taker_create(struct amb_subscription *sub, enum amb_ack ack,
                                 int64_t ack_wait_ns, struct amb_seat *seat)
{
    if (!amb_heap_charge(&sub->session->heap, TAKER_HEAP)) {
        return AMB_ELIMIT;
    }
    struct amb_taker *taker = calloc(1, sizeof(*taker));
    if (taker == NULL) {
        amb_heap_give(&sub->session->heap, TAKER_HEAP);
        return AMB_ENOMEM;
    }
    struct amb_shard *shard = sub->session->shard;
    taker->sub = sub;
    taker->shard = shard;
    taker->seat = seat;
    taker->ack = ack;
    taker->ack_wait_ns = ack_wait_ns;
    amb_list_init(&taker->waiting);
    amb_list_init(&taker->pending);
    amb_list_init(&taker->busy);
    amb_list_init(&taker->waiters);
    amb_list_push_back(&shard->takers, &taker->node);
    sub->session->takers++;
    sub->taker = taker;
    sub->hooks = &taker_hooks;
    return AMB_OK;
}
