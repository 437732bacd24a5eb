/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_session.h"

#include "broker/base/fault.h"
#include "broker/ingest/leave.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_buffer.h"
#include "broker/ingest/publisher_window.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/worker/orders_private.h"
#include "broker/worker/porter.h"
#include "broker/worker/session_life.h"
#include "wire/base/log.h"
#include "wire/tls/tls.h"

#include <stdlib.h>

static void session_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session_opening *opening =
        &AMB_CONTAINER_OF(order, struct amb_order_session_open, order)->opening;
    if (opening->ring == NULL) {
        opening->fds = (struct amb_ring_fds){-1, -1};
    }
    if (order->status == AMB_OK) { /* Else the porter could not make the ring. */
        order->status =
            amb_session_open(shard, order->session.index, order->session.generation, opening);
    }
}

static void session_open_fini(struct amb_order *order)
{
    const struct amb_session_opening *opening =
        &AMB_CONTAINER_OF(order, struct amb_order_session_open, order)->opening;
    free(opening->address);
    (void)!amb_link_close(opening->ring); /* Nobody has taken it. */
}

const struct amb_order_kind amb_order_session_open = {
    .run = session_open,
    .fini = session_open_fini,
    .size = AMB_ORDER_SIZE(struct amb_order_session_open),
};

static void session_raise_mapped(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_session_raise_mapped *mapped =
        AMB_CONTAINER_OF(order, struct amb_order_session_raise_mapped, order);
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        session->mapped_max = mapped->mapped_max;
    }
}

const struct amb_order_kind amb_order_session_raise_mapped = {
    .run = session_raise_mapped,
    .size = AMB_ORDER_SIZE(struct amb_order_session_raise_mapped),
};

static void session_attach(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_session_attach *attach =
        AMB_CONTAINER_OF(order, struct amb_order_session_attach, order);
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        struct amb_tls *tls = attach->tls;
        attach->tls = NULL;
        order->status = amb_session_attach(session, attach->fd, tls);
        return;
    }
    amb_porter_close(shard->memory.porter, attach->fd);
    order->status = AMB_ESTATE;
}

static void session_attach_fini(struct amb_order *order)
{
    amb_tls_destroy(&AMB_CONTAINER_OF(order, struct amb_order_session_attach, order)->tls);
}

const struct amb_order_kind amb_order_session_attach = {
    .run = session_attach,
    .fini = session_attach_fini,
    .size = AMB_ORDER_SIZE(struct amb_order_session_attach),
};

static void session_closed(void *arg, uint64_t quarantined_bytes)
{
    struct amb_order_session_end *end = arg;
    end->closing.quarantined_bytes = quarantined_bytes;
    amb_order_answer(&end->order);
}

/* The client's next session opens when this one is heard (amb_order_session_heard). */
static void session_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_session_end *end =
        AMB_CONTAINER_OF(order, struct amb_order_session_end, order);
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        session->maps = 0; /* It is offered nothing more, while its last words are heard. */
    }
    if (session == NULL) {
        amb_order_answer(order);
    } else if (!amb_session_hear(session, &end->closing)) {
        amb_order_post(shard, order);
    } else {
        amb_session_close(session, end->closing.keep_held, session_closed, end);
    }
}

const struct amb_order_kind amb_order_session_close = {
    .run = session_close,
    .size = AMB_ORDER_SIZE(struct amb_order_session_end),
    .answers_itself = true,
};

/* Messages that are on their way there go on elsewhere. */
static void bodies_leave(struct amb_shard *shard)
{
    for (uint32_t i = 0; i < shard->sessions.cells; i++) {
        struct amb_session *session = shard->sessions.at[i];
        if (session != NULL && amb_session_is_up(session)) {
            amb_ingest_leave(session);
        }
    }
}

/* Buffers that are prepared for messages to come lie there, too. Without memory it comes again. */
static void groups_retire(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_groups_retire *ask =
        AMB_CONTAINER_OF(order, struct amb_order_groups_retire, order);
    amb_publishers_unprepare(shard);
    ask->maps = amb_shard_memory_retire(shard, ask->tenant, ask->maps);
    bodies_leave(shard);
    if (ask->maps == 0) {
        amb_order_answer(order);
        return;
    }
    if (!ask->has_said) {
        ask->has_said = true;
        amb_error("worker %u: no memory to take segments from a process that lost its rights: it "
                  "is tried again",
                  shard->index);
    }
    amb_order_post(shard, order);
}

const struct amb_order_kind amb_order_groups_retire = {
    .run = groups_retire,
    .size = AMB_ORDER_SIZE(struct amb_order_groups_retire),
    .answers_itself = true,
};

/* Sessions that close later do not keep it waiting. */
static void fence_run(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_fence *fence = AMB_CONTAINER_OF(order, struct amb_order_fence, order);
    if (!fence->has_begun) {
        fence->has_begun = true;
        fence->number = amb_sessions_newest(shard);
    }
    if (amb_sessions_are_heard(shard, fence->number)) {
        amb_order_answer(order);
    } else {
        amb_order_post(shard, order);
    }
}

const struct amb_order_kind amb_order_fence = {
    .run = fence_run,
    .size = AMB_ORDER_SIZE(struct amb_order_fence),
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
    .size = AMB_ORDER_SIZE(struct amb_order_session_end),
    .answers_itself = true,
};

static void publisher_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_publisher_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_publisher_open, order);
    struct amb_session *session = amb_order_session(shard, order);
    if (session == NULL) {
        return;
    }
    if (amb_session_publisher(session, open->handle) != NULL) {
        order->status = AMB_ESTATE;
        return;
    }
    const struct amb_trust_group *group = amb_trust_group_or_main(open->group);
    struct amb_publisher *publisher;
    order->status =
        amb_publisher_create(session, open->handle, open->topic, open->home, open->wants_settled,
                             open->is_private ? &amb_trust_group_private : group, &publisher);
    if (order->status == AMB_OK) {
        publisher->group = group;
        publisher->verifies = open->verifies;
        publisher->copies = open->copies;
        publisher->subscribers = open->subscribers;
        publisher->lease_user = open->lease_user;
        publisher->avoids_gpu = open->avoids_gpu;
        publisher->confirms = publisher->asks = open->confirms;
        publisher->seq = open->seq;
        open->window = publisher->window;
    }
}

const struct amb_order_kind amb_order_publisher_open = {
    .run = publisher_open,
    .size = AMB_ORDER_SIZE(struct amb_order_publisher_open),
};

static void publisher_gone(void *order)
{
    amb_order_answer(order);
}

/* Answered when everything that was sent has been routed. */
static void publisher_close(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_publisher_close *close =
        AMB_CONTAINER_OF(order, struct amb_order_publisher_close, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_publisher *publisher =
        session == NULL ? NULL : amb_session_publisher(session, close->handle);
    if (publisher == NULL || publisher->is_ending) {
        amb_order_answer(order);
        return;
    }
    amb_publisher_end(publisher, close->batches, publisher_gone, order);
}

const struct amb_order_kind amb_order_publisher_close = {
    .run = publisher_close,
    .size = AMB_ORDER_SIZE(struct amb_order_publisher_close),
    .answers_itself = true,
};

static void publisher_subscribers(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_publisher_subscribers *told =
        AMB_CONTAINER_OF(order, struct amb_order_publisher_subscribers, order);
    struct amb_session *session = amb_order_session(shard, order);
    struct amb_publisher *publisher = session == NULL || session->link == NULL
                                          ? NULL
                                          : amb_session_publisher(session, told->handle);
    if (publisher != NULL) {
        publisher->copies = told->copies;
        publisher->subscribers = told->count;
        amb_publisher_tell_audience(publisher);
    }
}

const struct amb_order_kind amb_order_publisher_subscribers = {
    .run = publisher_subscribers,
    .size = AMB_ORDER_SIZE(struct amb_order_publisher_subscribers),
};

static void segment_refused(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_segment_refused *refused =
        AMB_CONTAINER_OF(order, struct amb_order_segment_refused, order);
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        amb_session_mapping(session, refused->segment, AMB_MAPPING_REFUSED);
        amb_session_unstall(session);
    }
}

const struct amb_order_kind amb_order_segment_refused = {
    .run = segment_refused,
    .size = AMB_ORDER_SIZE(struct amb_order_segment_refused),
};
