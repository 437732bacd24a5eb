/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/orders.h"

#include "broker/begin.h"
#include "broker/config.h"
#include "broker/dispatch.h"
#include "broker/identity.h"
#include "broker/keys.h"
#include "broker/maker.h"
#include "broker/prelude.h"
#include "broker/priority.h"
#include "broker/publisher.h"
#include "broker/reclaim.h"
#include "broker/replay.h"
#include "broker/segment.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "broker/taker.h"
#include "broker/topic.h"
#include "wire/base/assert.h"
#include "wire/link/stream.h"
#include "wire/link/ucx.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CLOSE_POLLS_MAX 64u
#define CLOSE_POLL_BUDGET 64u

struct amb_order *amb_order_create(amb_order_fn run, amb_order_done_fn done, void *context)
{
    struct amb_order *order = calloc(1, sizeof(*order));
    if (order != NULL) {
        order->run = run;
        order->done = done;
        order->context = context;
    }
    return order;
}

void amb_order_free(struct amb_order *order)
{
    if (order != NULL && order->run == amb_order_session_open) {
        free(order->u.open.address);
    }
    if (order != NULL && order->fini != NULL) {
        order->fini(order);
    }
    free(order);
}

/* On the control thread. */
static void order_answered(struct amb_mail *mail, void *owner)
{
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    order->done(owner, order);
}

static void order_answer(struct amb_order *order)
{
    if (order->done == NULL) {
        amb_order_free(order);
        return;
    }
    amb_mail_post(order->shard->control, &order->mail, order_answered);
}

/* On the worker. */
static void order_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    /* May be gone after run. */
    bool answers_itself =
        order->run == amb_order_session_close || order->run == amb_order_subscription_open ||
        order->run == amb_order_subscription_close || order->run == amb_order_subscription_sync ||
        order->run == amb_order_publisher_close || order->run == amb_order_lend ||
        order->run == amb_order_lease_open || order->run == amb_order_lease_mapped;
    order->run(owner, order);
    if (!answers_itself) {
        order_answer(order);
    }
}

void amb_order_post(struct amb_shard *shard, struct amb_order *order)
{
    order->shard = shard;
    amb_mail_post(&shard->inbox, &order->mail, order_arrived);
}

/* The order's session, if it is still open; else the answer is ECLOSED. */
static struct amb_session *order_session(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session == NULL || session->state != AMB_SESSION_OPEN) {
        order->status = AMB_ECLOSED;
        return NULL;
    }
    return session;
}

/* Has the worker's epoll report what happens on the session's link. */
static enum amb_status session_watch(struct amb_session *session)
{
    int fd = amb_link_fd(session->link);
    if (fd < 0 || session->shard->epoll_fd < 0) {
        return AMB_OK;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                .data.u64 =
                                    amb_shard_watch_tag(session->index, session->generation)};
    if (epoll_ctl(session->shard->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
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
        status = amb_ring_create(order->u.open.ring_size, &amb_dispatch_events, session,
                                 &order->u.open.fds, &session->link);
        break;
    case AMB_LINK_UCX:
        status = shard->ucx_worker == NULL
                     ? AMB_ENOTSUP
                     : amb_ucx_link_create(shard->ucx_worker, order->u.open.address,
                                           order->u.open.address_len, session->index,
                                           session->generation, session->secret,
                                           &amb_dispatch_events, session, &session->link);
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
    order->u.open.fds = (struct amb_ring_fds){-1, -1, -1};
    order->status = amb_session_create(shard, order->session.index, order->session.generation,
                                       order->u.open.secret, order->u.open.client_id, &session);
    if (order->status != AMB_OK) {
        return;
    }
    session->may_map = order->u.open.may_map;
    session->may_map_gpu = order->u.open.may_map_gpu;
    order->status = session_make_link(session, order);
    if (order->status != AMB_OK) {
        amb_session_close(session, false, session_dropped, NULL);
    }
}

void amb_order_session_attach(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    if (session == NULL || session->link != NULL) {
        (void)close(order->u.attach.fd);
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

/* The session is without link. It goes, unless its client's process may still read what it holds.
 */
static void session_ended(struct amb_session *session, void *arg)
{
    struct amb_order *order = arg;
    order->u.close.held_bytes = amb_lease_book_held(&session->book) +
                                (amb_list_is_empty(&session->held) ? 0 : session->mapped_bytes);
    if (order->u.close.held_bytes == 0) {
        amb_session_destroy(&session);
    }
    order_answer(order);
}

/* What a client has said before it left still counts: its Bye overtakes what it has given back and
 * acknowledged. Within limits, for one that goes on talking. */
static void session_hear(struct amb_session *session)
{
    for (unsigned i = 0; i < CLOSE_POLLS_MAX && session->link != NULL && !session->is_link_down &&
                         amb_link_poll(session->link, CLOSE_POLL_BUDGET) > 0;
         i++) {
    }
}

void amb_order_session_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    if (session == NULL) {
        order_answer(order);
        return;
    }
    session_hear(session);
    amb_session_close(session, order->u.close.keep_held, session_ended, order);
}

void amb_order_session_release(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session == NULL || session->state != AMB_SESSION_QUARANTINED) {
        order->status = AMB_ENOTFOUND;
        return;
    }
    amb_session_release_held(session);
    amb_session_destroy(&session);
}

void amb_order_topic_add(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = order->u.topic.topic;
    struct amb_topic **slot = amb_shard_topic_slot(shard, topic->id);
    if (slot == NULL) {
        order->status = AMB_ENOMEM;
        return;
    }
    amb_assert(*slot == NULL);
    *slot = topic;
    amb_priority_enter(topic);
}

/* Have all readers here, and at borrowers, come to its end? */
static bool topic_is_read(const struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        if (AMB_CONTAINER_OF(node, struct amb_cursor, of_topic)->position < topic->log.hi) {
            return false;
        }
    }
    for (unsigned i = 0; i < topic->lend_count; i++) {
        const struct amb_lend *lend = &topic->lends[i];
        if (lend->subs > 0 &&
            (lend->position < topic->log.hi ||
             atomic_load_explicit(&lend->shadow->consumed, memory_order_acquire) != lend->lent)) {
            return false;
        }
    }
    AMB_LIST_FOR_EACH (node, &topic->replays) {
        const struct amb_lend *lend = &AMB_CONTAINER_OF(node, struct amb_replay, node)->lend;
        if (lend->position < topic->log.hi ||
            atomic_load_explicit(&lend->shadow->consumed, memory_order_acquire) != lend->lent) {
            return false;
        }
    }
    return true;
}

/* Somebody may come for its history: it stays until that has gone. */
void amb_order_topic_ask(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_topic *topic = order->u.topic.topic;
    bool has_history = topic->retains && topic->log.lo < topic->log.hi;
    if (topic->retains && topic->has_keys) {
        amb_keys_expire(topic->keys, shard->now_ns, topic->rule->ttl_ns);
        has_history = has_history || amb_keys_count(topic->keys) > 0;
    }
    order->status = topic_is_read(topic) && !has_history ? AMB_OK : AMB_EAGAIN;
}

void amb_order_topic_remove(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = order->u.topic.topic;
    if (topic->naming > 0 || !topic_is_read(topic)) {
        order->status = AMB_EAGAIN;
        return;
    }
    amb_assert(amb_shard_topic(shard, topic->id) == topic);
    AMB_LIST_FOR_EACH_SAFE (node, &topic->cursors) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    amb_replay_end_all(topic);
    *amb_shard_topic_slot(shard, topic->id) = NULL;
    amb_topic_clear(topic);
}

void amb_order_limits(struct amb_shard *shard, struct amb_order *order)
{
    amb_shard_set_limits(shard, order->u.limits.limits);
}

void amb_order_nothing(struct amb_shard *shard, struct amb_order *order)
{
    (void)shard;
    (void)order;
}

void amb_order_topic_matched(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.matched.topic);
    if (topic != NULL) {
        topic->matched = order->u.matched.matched;
    }
}

static void order_attach(struct amb_shard *shard, struct amb_order *order, uint32_t handle,
                         uint64_t sub_id, struct amb_topic *topic, const struct amb_begun *begun)
{
    if (handle == AMB_QUEUE_HANDLE) {
        struct amb_queue *queue = amb_shard_queue(shard, sub_id);
        order->status =
            queue == NULL || topic == NULL ? AMB_ENOTFOUND : amb_queue_attach(queue, topic, begun);
        return;
    }
    struct amb_session *session = order_session(shard, order);
    if (session == NULL) {
        return;
    }
    struct amb_subscription *sub = session->subscriptions[handle];
    /* Not one that has ended and keeps the handle until its deliveries are back. */
    if (sub == NULL || sub->id != sub_id || sub->has_ended || topic == NULL) {
        order->status = AMB_ENOTFOUND;
        return;
    }
    order->status = amb_subscription_attach(sub, topic, begun);
}

/* At the borrower. */
static void lend_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    struct amb_topic *topic = order->u.lend.attach_to;
    if (topic == NULL) {
        topic = amb_shard_topic(owner, order->u.lend.topic);
    } else {
        amb_list_push_back(&topic->namesake->privates, &topic->of_namesake);
    }
    order_attach(owner, order, order->u.lend.handle, order->u.lend.sub, topic,
                 &order->u.lend.begun);
    if (order->status != AMB_OK) {
        amb_prelude_free(&order->u.lend.begun.prelude, owner);
    }
    order_answer(order);
}

/* It begins in history: with a shadow of its own. False: it does not, or cannot for want of memory,
 * and begins at the end. */
static bool order_replay(struct amb_topic *topic, struct amb_order *order)
{
    struct amb_begun *begun = &order->u.lend.begun;
    amb_begin_find(topic, &order->u.lend.begin, begun);
    amb_prelude_lend(&begun->prelude, topic->shard);
    if (begun->position < topic->log.hi) {
        order->u.lend.attach_to = amb_replay_begin(
            topic, order->u.lend.borrower, order->u.lend.sub, order->u.lend.holding > 0,
            order->u.lend.spilling > 0, order->u.lend.shadow, begun);
    }
    return order->u.lend.attach_to != NULL;
}

static void lend_answer(struct amb_shard *shard, struct amb_order *order, bool attaches)
{
    if (attaches) {
        amb_mail_post(&shard->peers[order->u.lend.borrower]->inbox, &order->mail, lend_arrived);
    } else {
        order_answer(order);
    }
}

void amb_order_lend(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.lend.topic);
    if (topic == NULL) {
        order->status = AMB_ENOTFOUND;
        order_answer(order);
        return;
    }
    bool is_new = order->u.lend.subs > 0;
    if (is_new ? order_replay(topic, order) : amb_replay_end(topic, order->u.lend.sub)) {
        lend_answer(shard, order, is_new);
        return;
    }
    struct amb_lend *lend = &topic->lends[order->u.lend.borrower];
    if (lend->subs == 0) {
        lend->position = topic->log.hi; /* Reading begins now. */
        lend->shadow = order->u.lend.shadow;
    }
    amb_topic_count_lent(topic, lend, order->u.lend.subs, order->u.lend.holding,
                         order->u.lend.spilling);
    lend_answer(shard, order, is_new);
}

void amb_order_publisher_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    if (session == NULL) {
        return;
    }
    if (session->publishers[order->u.publisher.handle] != NULL) {
        order->status = AMB_ESTATE;
        return;
    }
    struct amb_publisher *publisher;
    order->status =
        amb_publisher_create(session, order->u.publisher.handle, order->u.publisher.topic,
                             order->u.publisher.home, order->u.publisher.wants_settled, &publisher);
    if (order->status == AMB_OK) {
        publisher->verifies = order->u.publisher.verifies;
        publisher->avoids_gpu = order->u.publisher.avoids_gpu;
        publisher->confirms = order->u.publisher.confirms;
        publisher->seq =
            order->u.publisher.identity != NULL ? &order->u.publisher.identity->seq : NULL;
        order->u.publisher.window = publisher->window;
    }
}

static void publisher_gone(void *order)
{
    order_answer(order);
}

/* Answered when everything that was sent has been routed. */
void amb_order_publisher_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    struct amb_publisher *publisher =
        session == NULL ? NULL : session->publishers[order->u.publisher.handle];
    if (publisher == NULL || publisher->is_ending) {
        order_answer(order);
        return;
    }
    amb_publisher_end(publisher, order->u.publisher.batches, publisher_gone, order);
}

void amb_order_publisher_subscribers(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    if (session != NULL && session->link != NULL &&
        session->publishers[order->u.subscribers.handle] != NULL) {
        amb_session_flow(session, AMB_FLOW_SUBSCRIBERS, order->u.subscribers.handle,
                         order->u.subscribers.count);
    }
}

void amb_order_queue_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_queue *queue;
    order->status = amb_queue_create(shard, order->u.queue.id, &order->u.queue.options, &queue);
}

void amb_order_queue_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_queue *queue = amb_shard_queue(shard, order->u.queue.id);
    if (queue != NULL) {
        amb_queue_close(queue);
    }
}

/* At the queue's worker: behind this mail come the member's others. */
static void member_joins(struct amb_mail *mail, void *owner)
{
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    struct amb_queue *queue = amb_shard_queue(owner, order->u.subscription.queue);
    if (queue == NULL) {
        order->status = AMB_ENOTFOUND; /* Its seat goes when the subscription does. */
    } else {
        amb_queue_join(queue, order->u.subscription.seat, &order->u.subscription.queue_options);
        amb_queue_filter(queue, order->u.subscription.filter);
        order->u.subscription.filter = NULL;
    }
    order_answer(order);
}

/* Makes the subscription a member and has it join; the queue's worker answers. */
static enum amb_status member_open(struct amb_subscription *sub, struct amb_order *order)
{
    struct amb_session *session = sub->session;
    struct amb_shard *home = session->shard->peers[order->u.subscription.queue_home];
    struct amb_seat *seat = calloc(1, sizeof(*seat));
    if (seat == NULL) {
        return AMB_ENOMEM;
    }
    seat->home = home;
    seat->shard = session->shard;
    seat->on_leave = amb_queue_seat_left;
    seat->on_kick = amb_queue_seat_kicked;
    seat->to = (struct amb_take_to){.session = session->index,
                                    .generation = session->generation,
                                    .handle = sub->handle,
                                    .sub = sub->id};
    seat->credit_msgs = sub->options.credit_msgs;
    seat->credit_bytes = sub->options.credit_bytes;
    amb_list_init(&seat->node);
    const struct amb_queue_options *options = &order->u.subscription.queue_options;
    enum amb_status status = amb_taker_create(sub, options->ack, options->ack_wait_ns, seat);
    if (status != AMB_OK) {
        free(seat);
        return status;
    }
    order->u.subscription.seat = seat;
    amb_take_post(session->shard, home, &order->mail, member_joins);
    return AMB_OK;
}

void amb_order_subscription_open(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    struct amb_subscription *sub = NULL;
    uint32_t handle = order->u.subscription.handle;
    if (session != NULL && session->subscriptions[handle] != NULL) {
        order->status = AMB_ESTATE;
    } else if (session != NULL) {
        order->status = amb_subscription_create(session, handle, order->u.subscription.id,
                                                &order->u.subscription.options, &sub);
    }
    if (sub != NULL && order->u.subscription.queue == 0) {
        sub->filter = order->u.subscription.filter;
        order->u.subscription.filter = NULL;
    }
    if (sub != NULL && order->u.subscription.queue != 0) {
        enum amb_status status = member_open(sub, order);
        if (status == AMB_OK) {
            return; /* The order is the queue's worker's. */
        }
        order->status = status;
        amb_subscription_destroy(&sub, false);
    }
    order_answer(order);
}

static void subscription_gone(void *order)
{
    order_answer(order);
}

static struct amb_order *order_of_waiter(struct amb_taker_waiter *waiter)
{
    return AMB_CONTAINER_OF(waiter, struct amb_order, u.subscription.waiter);
}

static void acks_came_last(struct amb_taker_waiter *waiter, struct amb_subscription *sub)
{
    struct amb_order *order = order_of_waiter(waiter);
    if (sub == NULL || sub->has_ended) {
        order_answer(order);
    } else {
        amb_subscription_end(sub, subscription_gone, order);
    }
}

static void acks_came(struct amb_taker_waiter *waiter, struct amb_subscription *sub)
{
    struct amb_order *order = order_of_waiter(waiter);
    order->status = sub == NULL ? AMB_ECLOSED : AMB_OK;
    order_answer(order);
}

void amb_order_subscription_sync(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    struct amb_subscription *sub =
        session == NULL ? NULL : session->subscriptions[order->u.subscription.handle];
    if (sub == NULL || sub->taker == NULL) {
        order->status = AMB_ENOTFOUND;
        order_answer(order);
        return;
    }
    if (order->u.subscription.stop) {
        amb_taker_stop(sub->taker);
    }
    order->u.subscription.waiter.frames = order->u.subscription.acks;
    order->u.subscription.waiter.done = acks_came;
    enum amb_status status = amb_taker_wait(sub->taker, &order->u.subscription.waiter);
    if (status != AMB_OK) {
        order->status = status;
        order_answer(order);
    }
}

/* Answered when the handle may be used again: nothing of it is under way any more. */
void amb_order_subscription_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    struct amb_subscription *sub =
        session == NULL ? NULL : session->subscriptions[order->u.subscription.handle];
    if (sub == NULL || sub->has_ended) {
        order_answer(order);
        return;
    }
    if (sub->taker == NULL) {
        amb_subscription_end(sub, subscription_gone, order);
        return;
    }
    amb_taker_stop(sub->taker);
    order->u.subscription.waiter.frames = order->u.subscription.acks;
    order->u.subscription.waiter.done = acks_came_last;
    if (amb_taker_wait(sub->taker, &order->u.subscription.waiter) != AMB_OK) {
        acks_came_last(&order->u.subscription.waiter, sub); /* It has asked too often. */
    }
}

void amb_order_cursor_attach(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.cursor.topic);
    struct amb_begun begun = {0};
    if (topic != NULL) {
        amb_begin_find(topic, &order->u.cursor.begin, &begun);
    }
    order_attach(shard, order, order->u.cursor.handle, order->u.cursor.sub, topic, &begun);
    if (order->status != AMB_OK) {
        amb_prelude_free(&begun.prelude, shard);
    }
}

void amb_order_segment_refused(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    if (session != NULL) {
        amb_session_mapping(session, order->u.segment.segment, AMB_MAPPING_REFUSED);
        amb_session_unstall(session);
    }
}

/* Leases: their pages are the maker's work, some at a time. */

static void lease_failed(struct amb_shard *shard, struct amb_order *order, enum amb_status status,
                         const char *why)
{
    amb_stat_add(&shard->stats.leases_refused, 1);
    order->status = status;
    order->u.lease.why = why;
    order_answer(order);
}

/* The lease is whole: a descriptor for its client, or commits may name it. */
static void lease_filled(struct amb_shard *shard, struct amb_order *order, struct amb_lease *lease)
{
    if (lease->state == AMB_LEASE_OFFERED) {
        order->u.lease.size = lease->segment->size;
        order->u.lease.fd = fcntl(lease->segment->fd_rw, F_DUPFD_CLOEXEC, 0);
        if (order->u.lease.fd < 0) {
            amb_lease_close(lease);
            lease_failed(shard, order, AMB_ELIMIT, "no descriptor left");
            return;
        }
    }
    order_answer(order);
}

/* On the worker again. */
static void lease_passed(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    struct amb_session *session = order_session(shard, order);
    struct amb_lease *lease =
        session == NULL ? NULL : amb_lease_find(&session->book, order->u.lease.segment);
    if (lease == NULL) {
        amb_lease_pass_fini(&order->u.lease.pass);
        lease_failed(shard, order, AMB_ECLOSED, "closed meanwhile");
        return;
    }
    enum amb_status status = amb_lease_pass_end(lease, &order->u.lease.pass);
    if (status != AMB_OK) {
        lease_failed(shard, order, status, "the host's memory is used up");
    } else {
        lease_filled(shard, order, lease);
    }
}

/* On the maker: a part, then others' work, then the next part. */
static void lease_pass(struct amb_mail *mail, void *owner)
{
    struct amb_maker *maker = owner;
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    if (amb_lease_pass_step(&order->u.lease.pass) && !maker->is_stopping) {
        amb_mail_post(&maker->inbox, mail, lease_pass);
    } else {
        amb_mail_post(&order->shard->inbox, mail, lease_passed);
    }
}

static void lease_begin_pass(struct amb_shard *shard, struct amb_order *order,
                             struct amb_lease *lease)
{
    enum amb_status status = amb_lease_pass_begin(lease, &order->u.lease.pass);
    if (status != AMB_OK) {
        lease_failed(shard, order, status, "no descriptor left");
        return;
    }
    if (shard->maker != NULL) {
        amb_mail_post(&shard->maker->inbox, &order->mail, lease_pass);
        return;
    }
    while (amb_lease_pass_step(&order->u.lease.pass)) {
    }
    amb_mail_post(&shard->inbox, &order->mail, lease_passed);
}

/* There are no pages to be made: it is whole at once. */
static void lease_open_gpu(struct amb_shard *shard, struct amb_session *session,
                           struct amb_order *order)
{
    const char *why = "";
    struct amb_lease *lease;
    enum amb_status status =
        session->may_map_gpu
            ? amb_lease_open_gpu(shard, &session->book, order->u.lease.pool, order->u.lease.slot,
                                 order->u.lease.slots, &lease, &why)
            : AMB_EFORBIDDEN;
    if (status != AMB_OK) {
        lease_failed(shard, order, status,
                     status == AMB_EFORBIDDEN
                         ? "this client is not trusted with GPU memory (memory.cuda.trust)"
                         : why);
        return;
    }
    order->u.lease.segment = lease->segment->id;
    order->u.lease.size = lease->segment->size;
    order->u.lease.gpu_offset = lease->segment->gpu_offset;
    order_answer(order);
}

void amb_order_lease_open(struct amb_shard *shard, struct amb_order *order)
{
    order->u.lease.fd = -1;
    struct amb_session *session = order_session(shard, order);
    if (session == NULL || !session->may_map) {
        lease_failed(shard, order, AMB_ENOTSUP, "this client shares no memory with the broker");
        return;
    }
    if (order->u.lease.pool != NULL) {
        lease_open_gpu(shard, session, order);
        return;
    }
    uint64_t size = 0;
    const char *why = "";
    enum amb_status status = amb_lease_check(shard, &session->book, order->u.lease.slot,
                                             order->u.lease.slots, &size, &why);
    if (status == AMB_OK && !amb_reclaim_lease(shard, size)) {
        status = AMB_ENOMEM;
        why = "all clients together have what may be leased (memory.host.size, descriptors)";
    }
    struct amb_lease *lease = NULL;
    if (status == AMB_OK) {
        status = amb_lease_open(shard, &session->book, order->u.lease.slot, order->u.lease.slots,
                                size, &lease);
        why = "the segment could not be made";
    }
    if (status != AMB_OK) {
        lease_failed(shard, order, status, why);
        return;
    }
    order->u.lease.segment = lease->segment->id;
    lease_begin_pass(shard, order, lease);
}

void amb_order_lease_mapped(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    struct amb_lease *lease =
        session == NULL ? NULL : amb_lease_find(&session->book, order->u.lease.segment);
    enum amb_status status = lease == NULL ? AMB_ENOTFOUND : amb_lease_mapped(lease);
    if (status != AMB_OK) {
        lease_failed(shard, order, status,
                     status == AMB_EFORBIDDEN ? "the segment cannot be sealed"
                                              : "no such segment waits to be mapped");
        return;
    }
    if (lease->state == AMB_LEASE_SEALED) {
        order_answer(order);
        return;
    }
    lease_begin_pass(shard, order, lease);
}

void amb_order_lease_close(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session = order_session(shard, order);
    struct amb_lease *lease =
        session == NULL ? NULL : amb_lease_find(&session->book, order->u.lease.segment);
    if (lease != NULL) {
        amb_lease_close(lease);
    }
}
