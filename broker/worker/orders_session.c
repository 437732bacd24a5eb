/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_session.h"

#include "broker/base/fault.h"
#include "broker/base/party.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/worker/dispatch.h"
#include "broker/worker/orders_private.h"
#include "broker/worker/porter.h"
#include "broker/worker/session_life.h"
#include "broker/worker/ucxport.h"
#include "wire/link/stream/stream.h"
#include "wire/link/ucx/ucx_link.h"

#include <sys/epoll.h>
#include <unistd.h>

#define CLOSE_POLLS_MAX 64u   /* of a session's link, */
#define CLOSE_POLL_BUDGET 64u /* ... so many frames each */
#define RELEASE_BUDGET 4096u  /* references of a quarantined session that go in one turn */

/* Has the worker's epoll report what happens on the session's link. */
static enum amb_status session_watch(struct amb_session *session)
{
    int fd = amb_link_fd(session->link);
    if (fd < 0 || session->shard->poll.epoll_fd < 0) {
        return AMB_OK;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                .data.u64 =
                                    amb_shard_watch_tag(session->index, session->generation)};
    if (epoll_ctl(session->shard->poll.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return AMB_ENOMEM;
    }
    session->is_watched = session->link->ops->kind == AMB_LINK_STREAM;
    session->has_edge = true;
    return AMB_OK;
}

static enum amb_status session_make_link(struct amb_session *session, struct amb_order *order)
{
    struct amb_shard *shard = session->shard;
    enum amb_status status = AMB_OK;
    switch (order->u.open.link) {
    case AMB_LINK_RING:
        if (order->u.open.ring == NULL) { /* Without a porter. */
            status = amb_ring_create(order->u.open.ring_size, NULL, NULL, &order->u.open.fds,
                                     &order->u.open.ring);
        }
        if (status == AMB_OK) {
            session->link = order->u.open.ring;
            order->u.open.ring = NULL;
            amb_ring_adopt(session->link, &amb_dispatch_events, session);
        }
        break;
    case AMB_LINK_UCX:
        status = amb_ucxport_open(shard);
        if (status == AMB_OK) {
            status =
                amb_ucx_link_create(shard->ucx.worker, order->u.open.address,
                                    order->u.open.address_len, session->index, session->generation,
                                    session->secret, &amb_dispatch_events, session, &session->link);
        }
        break;
    case AMB_LINK_STREAM: /* comes with its own connection: attach */
        return AMB_OK;
    case AMB_LINK_ANY:
    case AMB_LINK_SIM:
        return AMB_ENOTSUP;
    }
    return status == AMB_OK ? session_watch(session) : status;
}

static void session_dropped(struct amb_session *session, void *arg)
{
    (void)arg;
    amb_session_destroy(&session);
}

void amb_order_session_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session;
    if (order->u.open.ring == NULL) {
        order->u.open.fds = (struct amb_ring_fds){-1, -1, -1};
    }
    if (order->status != AMB_OK) {
        return; /* The porter could not make the ring. */
    }
    order->status = amb_session_create(shard, order->session.index, order->session.generation,
                                       order->u.open.secret, order->u.open.client_id, &session);
    if (order->status != AMB_OK) {
        return;
    }
    session->user = order->u.open.user;
    session->may_map = order->u.open.may_map;
    session->may_map_gpu = order->u.open.may_map_gpu;
    session->mapped_max = order->u.open.mapped_max;
    session->party = session->book.party = amb_party_ref(order->u.open.party);
    order->status = session_make_link(session, order);
    if (order->status != AMB_OK) {
        amb_session_close(session, false, session_dropped, NULL);
    }
}

/* The control thread's share of quarantine for it has grown; u.open.mapped_max. */
void amb_order_session_raise_mapped(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        session->mapped_max = order->u.open.mapped_max;
    }
}

void amb_order_session_attach(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session == NULL || session->link != NULL) {
        amb_porter_close(shard->memory.porter, order->u.attach.fd);
        order->status = AMB_ESTATE;
        return;
    }
    order->status =
        amb_stream_create(order->u.attach.fd, &amb_dispatch_events, session, &session->link);
    if (order->status == AMB_OK) {
        order->status = session_watch(session);
        amb_session_unstall(session);
    }
}

/* Nobody reads anything of it any more. */
static void session_free(struct amb_session *session)
{
    if (session->ring_left != NULL) {
        amb_porter_dispose(session->shard->memory.porter, session->ring_left);
        session->ring_left = NULL;
    }
    amb_session_destroy(&session);
}

/* The session is without link. It goes, unless its client's process may still read deliveries that
 * it holds, or frames in its ring. */
static void session_ended(struct amb_session *session, void *arg)
{
    struct amb_order *order = arg;
    order->u.close.held_bytes = amb_lease_book_held(&session->book) +
                                (amb_list_is_empty(&session->held) ? 0 : session->mapped_bytes) +
                                (session->ring_left == NULL ? 0 : session->ring_left->bytes);
    if (order->u.close.held_bytes == 0) {
        session_free(session);
    }
    amb_order_answer(order);
}

/* A client's frames from before it left still count: its Bye overtakes the deliveries that it has
 * given back and acknowledged. A session has so many polls, and all that close together so many a
 * turn: a poll that finds nothing costs none. False: the order is posted again; the client's next
 * session opens when it is over (amb_order_session_heard). */
static bool session_hear(struct amb_session *session, struct amb_order *order)
{
    struct amb_shard *shard = session->shard;
    while (order->u.close.polls < CLOSE_POLLS_MAX && amb_session_is_up(session)) {
        if (shard->hearing.left == 0) {
            return false;
        }
        order->u.close.polls++;
        if (amb_link_poll(session->link, CLOSE_POLL_BUDGET) == 0) {
            return true;
        }
        shard->hearing.left--;
    }
    return true;
}

void amb_order_session_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session == NULL) {
        amb_order_answer(order);
        return;
    }
    if (!order->u.close.has_begun) {
        order->u.close.has_begun = true;
        order->u.close.number = ++shard->hearing.newest;
        amb_list_init(&order->u.close.hearing);
        amb_list_push_back(&shard->hearing.orders, &order->u.close.hearing);
    }
    if (!session_hear(session, order)) {
        amb_order_post(shard, order);
        return;
    }
    amb_list_remove(&order->u.close.hearing);
    amb_session_close(session, order->u.close.keep_held, session_ended, order);
}

/* Sessions that close later do not keep it waiting. */
void amb_order_fence(struct amb_shard *shard, struct amb_order *order)
{
    if (!order->u.fence.has_begun) {
        order->u.fence.has_begun = true;
        order->u.fence.number = shard->hearing.newest;
    }
    if (!amb_list_is_empty(&shard->hearing.orders) && !AMB_FAULT(FENCE_EARLY)) {
        const struct amb_order *oldest =
            AMB_CONTAINER_OF(shard->hearing.orders.next, struct amb_order, u.close.hearing);
        if (oldest->u.close.number <= order->u.fence.number) {
            amb_order_post(shard, order);
            return;
        }
    }
    amb_order_answer(order);
}

void amb_order_session_heard(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session != NULL && session->state == AMB_SESSION_OPEN && !AMB_FAULT(HEARD_EARLY)) {
        amb_order_post(shard, order);
    } else {
        amb_order_answer(order);
    }
}

void amb_order_session_release(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session == NULL || session->state != AMB_SESSION_QUARANTINED) {
        order->status = AMB_ENOTFOUND;
        amb_order_answer(order);
        return;
    }
    if (!amb_session_release_held(session, RELEASE_BUDGET)) {
        amb_order_post(shard, order); /* Others have their turn before the rest. */
        return;
    }
    session_free(session);
    amb_order_answer(order);
}

void amb_order_publisher_open(struct amb_shard *shard, struct amb_order *order)
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

static void publisher_gone(void *order)
{
    amb_order_answer(order);
}

/* Answered when everything that was sent has been routed. */
void amb_order_publisher_close(struct amb_shard *shard, struct amb_order *order)
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

void amb_order_publisher_subscribers(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL && session->link != NULL &&
        session->publishers[order->u.subscribers.handle] != NULL) {
        session->publishers[order->u.subscribers.handle]->copies = order->u.subscribers.copies;
        amb_session_flow(session, AMB_FLOW_SUBSCRIBERS, order->u.subscribers.handle,
                         order->u.subscribers.count);
    }
}

void amb_order_segment_refused(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = amb_order_session(shard, order);
    if (session != NULL) {
        amb_session_mapping(session, order->u.segment.segment, AMB_MAPPING_REFUSED);
        amb_session_unstall(session);
    }
}
