/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_subscription.h"

#include "broker/base/party.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/acks/taker_ack.h"
#include "broker/delivery/reader/nearness.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_private.h"
#include "wire/codec/filter.h"

#include <stdlib.h>
#include <string.h>

static void queue_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_queue_open *open = AMB_CONTAINER_OF(order, struct amb_order_queue_open, order);
    struct amb_queue *queue;
    order->status = amb_queue_create(shard, open->id, &open->options, open->party, &queue);
}

static void queue_open_fini(struct amb_order *order)
{
    amb_party_unref(&AMB_CONTAINER_OF(order, struct amb_order_queue_open, order)->party);
}

const struct amb_order_kind amb_order_queue_open = {
    .run = queue_open,
    .fini = queue_open_fini,
    .size = AMB_ORDER_SIZE(struct amb_order_queue_open),
};

static void queue_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_queue *queue =
        amb_shard_queue(shard, AMB_CONTAINER_OF(order, struct amb_order_queue_close, order)->id);
    if (queue != NULL) {
        amb_queue_close(queue);
    }
}

const struct amb_order_kind amb_order_queue_close = {
    .run = queue_close,
    .size = AMB_ORDER_SIZE(struct amb_order_queue_close),
};

/* At the queue's worker: behind this mail come the member's others. */
static void member_joins(struct amb_mail *mail, void *owner)
{
    struct amb_order_subscription_open *open =
        AMB_CONTAINER_OF(mail, struct amb_order_subscription_open, order.mail);
    struct amb_queue *queue = amb_shard_queue(owner, open->queue);
    if (queue == NULL) {
        open->order.status = AMB_ENOTFOUND; /* Its seat goes when the subscription does. */
    } else {
        amb_queue_join(queue, open->seat, &open->queue_options, &open->filter);
    }
    amb_order_answer(&open->order);
}

/* Makes the subscription a member and has it join; the queue's worker answers. */
static enum amb_status member_open(struct amb_subscription *sub,
                                   struct amb_order_subscription_open *open)
{
    struct amb_session *session = sub->session;
    struct amb_shard *home = session->shard->peers[open->queue_home];
    struct amb_seat *seat = calloc(1, sizeof(*seat));
    if (seat == NULL) {
        return AMB_ENOMEM;
    }
    seat->home = home;
    seat->shard = session->shard;
    seat->on_leave = amb_queue_seat_gone;
    seat->on_kick = amb_queue_seat_kicked;
    seat->to = (struct amb_take_to){.session = session->index,
                                    .generation = session->generation,
                                    .handle = sub->handle,
                                    .sub = sub->id};
    seat->nearness = amb_nearness_of(sub);
    seat->credit_msgs = sub->options.credit_msgs;
    seat->credit_bytes = sub->options.credit_bytes;
    amb_list_init(&seat->node);
    const struct amb_queue_options *options = &open->queue_options;
    enum amb_status status = amb_taker_create(sub, options->ack, options->ack_wait_ns, seat);
    if (status != AMB_OK) {
        free(seat);
        return status;
    }
    open->seat = seat;
    amb_take_post(session->shard, home, &open->order.mail, member_joins);
    return AMB_OK;
}

/* Its names for lists, where its session has heap for them. */
static void take_label(struct amb_subscription *sub, struct amb_order_subscription_open *open)
{
    if (open->label == NULL) {
        return;
    }
    const char *client = open->label + strlen(open->label) + 1;
    size_t heap = (size_t)(client - open->label) + strlen(client) + 1 + AMB_HEAP_OVERHEAD;
    if (amb_heap_charge(&sub->session->heap, heap)) {
        sub->label = open->label;
        sub->label_heap = heap;
        open->label = NULL;
    }
}

static void subscription_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_subscription_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_subscription_open, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_subscription *sub = NULL;
    uint32_t handle = open->handle;
    if (session != NULL && amb_session_subscription(session, handle) != NULL) {
        order->status = AMB_ESTATE;
    } else if (session != NULL) {
        order->status = amb_subscription_create(session, handle, open->id, &open->options, &sub);
    }
    struct amb_filter *filter = open->filter;
    if (sub != NULL) {
        take_label(sub, open);
    }
    if (sub != NULL && open->queue == 0 && filter != NULL) {
        if (amb_heap_charge(&session->heap, amb_filter_heap(filter))) {
            sub->filter = filter;
            sub->filter_heap = amb_filter_heap(filter);
            open->filter = NULL;
        } else {
            order->status = AMB_ELIMIT;
            amb_subscription_destroy(&sub, false);
        }
    }
    if (sub != NULL && open->queue != 0) {
        enum amb_status status = member_open(sub, open);
        if (status == AMB_OK) {
            return; /* The order is the queue's worker's. */
        }
        order->status = status;
        amb_subscription_destroy(&sub, false);
    }
    amb_order_answer(order);
}

static void subscription_open_fini(struct amb_order *order)
{
    struct amb_order_subscription_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_subscription_open, order);
    amb_filter_free(&open->filter);
    free(open->label);
}

const struct amb_order_kind amb_order_subscription_open = {
    .run = subscription_open,
    .fini = subscription_open_fini,
    .size = AMB_ORDER_SIZE(struct amb_order_subscription_open),
    .answers_itself = true,
};

static void subscription_gone(void *order)
{
    amb_order_answer(order);
}

static void acks_came_last(struct amb_taker_waiter *waiter, struct amb_subscription *sub)
{
    struct amb_order_subscription_close *close =
        AMB_CONTAINER_OF(waiter, struct amb_order_subscription_close, waiter);
    if (sub == NULL || sub->has_ended) {
        amb_order_answer(&close->order);
    } else {
        amb_subscription_end(sub, subscription_gone, &close->order);
    }
}

static void acks_came(struct amb_taker_waiter *waiter, struct amb_subscription *sub)
{
    struct amb_order_subscription_sync *sync =
        AMB_CONTAINER_OF(waiter, struct amb_order_subscription_sync, waiter);
    sync->order.status = sub == NULL ? AMB_ECLOSED : AMB_OK;
    amb_order_answer(&sync->order);
}

static void subscription_sync(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_subscription_sync *sync =
        AMB_CONTAINER_OF(order, struct amb_order_subscription_sync, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_subscription *sub =
        session == NULL ? NULL : amb_session_subscription(session, sync->handle);
    if (sub == NULL || sub->taker == NULL) {
        order->status = AMB_ENOTFOUND;
        amb_order_answer(order);
        return;
    }
    if (sync->stop) {
        amb_taker_stop(sub->taker);
    }
    sync->waiter.frames = sync->acks;
    sync->waiter.done = acks_came;
    enum amb_status status = amb_taker_wait(sub->taker, &sync->waiter);
    if (status != AMB_OK) {
        order->status = status;
        amb_order_answer(order);
    }
}

const struct amb_order_kind amb_order_subscription_sync = {
    .run = subscription_sync,
    .size = AMB_ORDER_SIZE(struct amb_order_subscription_sync),
    .answers_itself = true,
};

static void member_recall(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_member_recall *recall =
        AMB_CONTAINER_OF(order, struct amb_order_member_recall, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_subscription *sub =
        session == NULL ? NULL : amb_session_subscription(session, recall->handle);
    if (sub == NULL || sub->id != recall->id || sub->taker == NULL) {
        order->status = AMB_ENOTFOUND;
        return;
    }
    recall->messages = amb_taker_pending(sub->taker);
    amb_taker_recall(sub->taker);
}

const struct amb_order_kind amb_order_member_recall = {
    .run = member_recall,
    .size = AMB_ORDER_SIZE(struct amb_order_member_recall),
};

/* Answered when the handle may be used again: nothing of it is under way any more. */
static void subscription_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_subscription_close *close =
        AMB_CONTAINER_OF(order, struct amb_order_subscription_close, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_subscription *sub =
        session == NULL ? NULL : amb_session_subscription(session, close->handle);
    if (sub == NULL || sub->has_ended) {
        amb_order_answer(order);
        return;
    }
    if (sub->taker == NULL) {
        amb_subscription_end(sub, subscription_gone, order);
        return;
    }
    amb_taker_stop(sub->taker);
    close->waiter.frames = close->acks;
    close->waiter.done = acks_came_last;
    if (amb_taker_wait(sub->taker, &close->waiter) != AMB_OK) {
        acks_came_last(&close->waiter, sub); /* It has asked too often. */
    }
}

const struct amb_order_kind amb_order_subscription_close = {
    .run = subscription_close,
    .size = AMB_ORDER_SIZE(struct amb_order_subscription_close),
    .answers_itself = true,
};
