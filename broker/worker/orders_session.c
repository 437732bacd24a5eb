/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_session.h"

#include "broker/base/fault.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_private.h"
#include "broker/worker/porter.h"
#include "broker/worker/session_life.h"

#include <stdlib.h>

static void session_open(struct amb_shard *shard, struct amb_order *order)
{
    if (order->u.open.ring == NULL) {
        order->u.open.fds = (struct amb_ring_fds){-1, -1, -1};
    }
    if (order->status == AMB_OK) { /* Else the porter could not make the ring. */
        order->status = amb_session_open(shard, order->session.index, order->session.generation,
                                         &order->u.open);
    }
}

static void session_open_fini(struct amb_order *order)
{
    free(order->u.open.address);
    (void)!amb_link_close(order->u.open.ring); /* Nobody has taken it. */
}

const struct amb_order_kind amb_order_session_open = {
    .run = session_open,
    .fini = session_open_fini,
    .size = sizeof(struct amb_order),
};

/* The control thread's share of quarantine for it has grown; u.open.mapped_max. */
static void session_raise_mapped(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        session->mapped_max = order->u.open.mapped_max;
    }
}

const struct amb_order_kind amb_order_session_raise_mapped = {
    .run = session_raise_mapped,
    .size = sizeof(struct amb_order),
};

static void session_attach(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        order->status = amb_session_attach(session, order->u.attach.fd);
        return;
    }
    amb_porter_close(shard->memory.porter, order->u.attach.fd);
    order->status = AMB_ESTATE;
}

const struct amb_order_kind amb_order_session_attach = {
    .run = session_attach,
    .size = sizeof(struct amb_order),
};

static void session_closed(void *arg, uint64_t held_bytes)
{
    struct amb_order *order = arg;
    order->u.close.held_bytes = held_bytes;
    amb_order_answer(order);
}

/* The client's next session opens when this one is heard (amb_order_session_heard). */
static void session_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session == NULL) {
        amb_order_answer(order);
    } else if (!amb_session_hear(session, &order->u.close)) {
        amb_order_post(shard, order);
    } else {
        amb_session_close(session, order->u.close.keep_held, session_closed, order);
    }
}

const struct amb_order_kind amb_order_session_close = {
    .run = session_close,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

/* Sessions that close later do not keep it waiting. */
static void fence(struct amb_shard *shard, struct amb_order *order)
{
    if (!order->u.fence.has_begun) {
        order->u.fence.has_begun = true;
        order->u.fence.number = amb_sessions_newest(shard);
    }
    if (amb_sessions_are_heard(shard, order->u.fence.number)) {
        amb_order_answer(order);
    } else {
        amb_order_post(shard, order);
    }
}

const struct amb_order_kind amb_order_fence = {
    .run = fence,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

static void session_heard(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session != NULL && session->state == AMB_SESSION_OPEN && !AMB_FAULT(HEARD_EARLY)) {
        amb_order_post(shard, order);
    } else {
        amb_order_answer(order);
    }
}

const struct amb_order_kind amb_order_session_heard = {
    .run = session_heard,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

static void session_release(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session == NULL || session->state != AMB_SESSION_QUARANTINED) {
        order->status = AMB_ENOTFOUND;
        amb_order_answer(order);
    } else if (amb_session_release(session)) {
        amb_order_answer(order);
    } else {
        amb_order_post(shard, order); /* Others have their turn before the rest. */
    }
}

const struct amb_order_kind amb_order_session_release = {
    .run = session_release,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

static void publisher_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session == NULL) {
        return;
    }
    if (session->publishers[order->u.publisher.handle] != NULL) {
        order->status = AMB_ESTATE;
        return;
    }
    struct amb_publisher *publisher;
    order->status = amb_publisher_create(
        session, order->u.publisher.handle, order->u.publisher.topic, order->u.publisher.home,
        order->u.publisher.wants_settled, order->u.publisher.is_private, &publisher);
    if (order->status == AMB_OK) {
        publisher->verifies = order->u.publisher.verifies;
        publisher->copies = order->u.publisher.copies;
        publisher->lease_user = order->u.publisher.lease_user;
        publisher->avoids_gpu = order->u.publisher.avoids_gpu;
        publisher->confirms = order->u.publisher.confirms;
        publisher->seq = order->u.publisher.seq;
        order->u.publisher.window = publisher->window;
    }
}

const struct amb_order_kind amb_order_publisher_open = {
    .run = publisher_open,
    .size = sizeof(struct amb_order),
};

static void publisher_gone(void *order)
{
    amb_order_answer(order);
}

/* Answered when everything that was sent has been routed. */
static void publisher_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_publisher *publisher =
        session == NULL ? NULL : session->publishers[order->u.publisher.handle];
    if (publisher == NULL || publisher->is_ending) {
        amb_order_answer(order);
        return;
    }
    amb_publisher_end(publisher, order->u.publisher.batches, publisher_gone, order);
}

const struct amb_order_kind amb_order_publisher_close = {
    .run = publisher_close,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

static void publisher_subscribers(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL && session->link != NULL &&
        session->publishers[order->u.subscribers.handle] != NULL) {
        session->publishers[order->u.subscribers.handle]->copies = order->u.subscribers.copies;
        amb_session_flow(session, AMB_FLOW_SUBSCRIBERS, order->u.subscribers.handle,
                         order->u.subscribers.count);
    }
}

const struct amb_order_kind amb_order_publisher_subscribers = {
    .run = publisher_subscribers,
    .size = sizeof(struct amb_order),
};

static void segment_refused(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        amb_session_mapping(session, order->u.segment.segment, AMB_MAPPING_REFUSED);
        amb_session_unstall(session);
    }
}

const struct amb_order_kind amb_order_segment_refused = {
    .run = segment_refused,
    .size = sizeof(struct amb_order),
};
