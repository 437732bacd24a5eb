/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_topic.h"

#include "broker/config/config.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/ingest/route.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/priority.h"
#include "broker/topic/replay.h"
#include "broker/worker/orders_private.h"
#include "wire/base/assert.h"

#include <stdlib.h>

static void topic_add(struct amb_shard *shard, struct amb_order *order)
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

const struct amb_order_kind amb_order_topic_add = {
    .run = topic_add,
    .size = sizeof(struct amb_order),
};

/* Have all readers here, and at borrowers, come to its end? */
static bool topic_is_read(const struct amb_topic *topic)
{
    if (!amb_list_is_empty(&topic->audience.held)) {
        return false;
    }
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        if (AMB_CONTAINER_OF(node, struct amb_cursor, of_topic)->position < topic->log.hi) {
            return false;
        }
    }
    for (unsigned i = 0; i < topic->lending.count; i++) {
        const struct amb_lend *lend = &topic->lending.lends[i];
        if (lend->subs > 0 && (lend->position < topic->log.hi ||
                               atomic_load_explicit(&lend->shadow->shadow.consumed,
                                                    memory_order_acquire) != lend->lent)) {
            return false;
        }
    }
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        const struct amb_lend *lend = &AMB_CONTAINER_OF(node, struct amb_replay, node)->lend;
        if (lend->position < topic->log.hi ||
            atomic_load_explicit(&lend->shadow->shadow.consumed, memory_order_acquire) !=
                lend->lent) {
            return false;
        }
    }
    return true;
}

/* Somebody may come for its history: it stays until that has gone. */
static void topic_ask(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_topic *topic = order->u.topic.topic;
    bool has_history = topic->history.retains && topic->log.lo < topic->log.hi;
    if (topic->history.retains && topic->keys != NULL) {
        amb_keys_expire(topic->keys, shard->now_ns, topic->rule->ttl_ns);
        has_history = has_history || amb_keys_count(topic->keys) > 0;
    }
    order->status = topic_is_read(topic) && !has_history ? AMB_OK : AMB_EAGAIN;
}

const struct amb_order_kind amb_order_topic_ask = {
    .run = topic_ask,
    .size = sizeof(struct amb_order),
};

/* Its readers go in slices, which may be thousands: this mail goes around until none is left. */
static void topic_forget_readers(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    struct amb_topic *topic = order->u.topic.topic;
    for (unsigned i = 0; i < AMB_SWEEP_TURN && !amb_list_is_empty(&topic->cursors); i++) {
        struct amb_cursor *cursor =
            AMB_CONTAINER_OF(topic->cursors.next, struct amb_cursor, of_topic);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    if (!amb_list_is_empty(&topic->cursors)) {
        amb_mail_post(&shard->inbox, &order->mail, topic_forget_readers);
        return;
    }
    amb_topic_clear(topic);
    amb_order_answer(order);
}

static void topic_remove(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = order->u.topic.topic;
    if (topic->naming > 0 || !topic_is_read(topic)) {
        order->status = AMB_EAGAIN;
        amb_order_answer(order);
        return;
    }
    amb_assert(amb_shard_topic(shard, topic->id) == topic);
    amb_replay_end_all(topic);
    *amb_shard_topic_slot(shard, topic->id) = NULL; /* Nothing comes to it from here on. */
    topic_forget_readers(&order->mail, shard);
}

const struct amb_order_kind amb_order_topic_remove = {
    .run = topic_remove,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

static void topic_matched(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.matched.topic);
    if (topic != NULL) {
        topic->audience.matched = order->u.matched.matched;
    }
}

const struct amb_order_kind amb_order_topic_matched = {
    .run = topic_matched,
    .size = sizeof(struct amb_order),
};

static void topic_awake(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.wake.topic);
    if (topic != NULL) {
        amb_route_awake(topic);
    }
}

const struct amb_order_kind amb_order_topic_awake = {
    .run = topic_awake,
    .size = sizeof(struct amb_order),
};

static void order_attach(struct amb_shard *shard, struct amb_order *order, uint32_t handle,
                         uint64_t sub_id, struct amb_topic *topic, const struct amb_begun *begun)
{
    if (handle == AMB_QUEUE_HANDLE) {
        struct amb_queue *queue = amb_shard_queue(shard, sub_id);
        order->status =
            queue == NULL || topic == NULL ? AMB_ENOTFOUND : amb_queue_attach(queue, topic, begun);
        return;
    }
    struct amb_session *session = amb_order_session(shard, order);
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

static void cursor_attach(struct amb_shard *shard, struct amb_order *order)
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

const struct amb_order_kind amb_order_cursor_attach = {
    .run = cursor_attach,
    .size = sizeof(struct amb_order),
};

/* At the borrower. */
static void lend_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_order *order = AMB_CONTAINER_OF(mail, struct amb_order, mail);
    struct amb_topic *topic = order->u.lend.attach_to;
    if (topic == NULL) {
        topic = amb_shard_topic(owner, order->u.lend.topic);
    } else {
        amb_list_push_back(&topic->privates.namesake->privates.all, &topic->privates.node);
    }
    order_attach(owner, order, order->u.lend.handle, order->u.lend.sub, topic,
                 &order->u.lend.begun);
    if (order->status != AMB_OK) {
        amb_prelude_free(&order->u.lend.begun.prelude, owner);
    }
    amb_order_answer(order);
}

/* It begins in history: with a shadow of its own. False: it does not, or cannot for want of memory,
 * and begins at the end. */
static bool order_replay(struct amb_topic *topic, struct amb_order *order)
{
    struct amb_begun *begun = &order->u.lend.begun;
    amb_begin_find(topic, &order->u.lend.begin, begun);
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
        amb_order_answer(order);
    }
}

static void topic_lend(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.lend.topic);
    if (topic == NULL) {
        order->status = AMB_ENOTFOUND;
        amb_order_answer(order);
        return;
    }
    bool is_new = order->u.lend.subs > 0;
    if (is_new ? order_replay(topic, order) : amb_replay_end(topic, order->u.lend.sub)) {
        lend_answer(shard, order, is_new);
        return;
    }
    struct amb_lend *lend = &topic->lending.lends[order->u.lend.borrower];
    if (lend->subs == 0) {
        lend->position = topic->log.hi; /* Reading begins now. */
        lend->shadow = order->u.lend.shadow;
    }
    amb_topic_count_lent(topic, lend, order->u.lend.subs, order->u.lend.holding,
                         order->u.lend.spilling);
    lend_answer(shard, order, is_new);
}

const struct amb_order_kind amb_order_lend = {
    .run = topic_lend,
    .size = sizeof(struct amb_order),
    .answers_itself = true,
};

static void topic_recount(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = amb_shard_topic(shard, order->u.lend.topic);
    if (topic == NULL) {
        return; /* It has left. */
    }
    struct amb_lend *lend = amb_replay_lend(topic, order->u.lend.sub);
    lend = lend != NULL ? lend : &topic->lending.lends[order->u.lend.borrower];
    amb_topic_count_lent(topic, lend, 0, order->u.lend.holding, order->u.lend.spilling);
}

const struct amb_order_kind amb_order_recount = {
    .run = topic_recount,
    .size = sizeof(struct amb_order),
};
