/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_topic.h"

#include "broker/config/config.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/ingest/route.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/priority.h"
#include "broker/topic/purge.h"
#include "broker/topic/replay.h"
#include "broker/topic/rule.h"
#include "broker/worker/orders_private.h"
#include "wire/base/assert.h"

#include <stdlib.h>

static void topic_add(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = AMB_CONTAINER_OF(order, struct amb_order_topic, order)->topic;
    struct amb_topic **cell = amb_shard_topic_cell(shard, topic->id);
    if (cell == NULL) {
        order->status = AMB_ENOMEM;
        return;
    }
    amb_assert(*cell == NULL);
    *cell = topic;
    amb_priority_enter(topic);
}

const struct amb_order_kind amb_order_topic_add = {
    .run = topic_add,
    .size = AMB_ORDER_SIZE(struct amb_order_topic),
};

/* Have all readers here, and at borrowers, come to its end? */
static bool topic_is_read(const struct amb_topic *topic)
{
    if (!amb_list_is_empty(&topic->audience.waiting)) {
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
    const struct amb_topic *topic = AMB_CONTAINER_OF(order, struct amb_order_topic, order)->topic;
    bool has_history = topic->history.retains && topic->log.lo < topic->log.hi;
    if (topic->history.retains && topic->keys != NULL) {
        amb_keys_expire(topic->keys, shard->now_ns, topic->rule->ttl_ns);
        has_history = has_history || amb_keys_count(topic->keys) > 0;
    }
    order->status = topic_is_read(topic) && !has_history ? AMB_OK : AMB_EAGAIN;
}

const struct amb_order_kind amb_order_topic_ask = {
    .run = topic_ask,
    .size = AMB_ORDER_SIZE(struct amb_order_topic),
};

/* Its readers go in slices, which may be thousands: this mail goes around until none is left. */
static void topic_forget_readers(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_order_topic *remove = AMB_CONTAINER_OF(mail, struct amb_order_topic, order.mail);
    struct amb_topic *topic = remove->topic;
    for (unsigned i = 0; i < AMB_SWEEP_TURN && !amb_list_is_empty(&topic->cursors); i++) {
        struct amb_cursor *cursor =
            AMB_CONTAINER_OF(topic->cursors.next, struct amb_cursor, of_topic);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    if (!amb_list_is_empty(&topic->cursors)) {
        amb_mail_post(&shard->inbox, mail, topic_forget_readers);
        return;
    }
    amb_topic_clear(topic);
    amb_order_answer(&remove->order);
}

static void topic_remove(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_topic *topic = AMB_CONTAINER_OF(order, struct amb_order_topic, order)->topic;
    if (topic->naming > 0 || !topic_is_read(topic)) {
        order->status = AMB_EAGAIN;
        amb_order_answer(order);
        return;
    }
    amb_assert(amb_shard_topic(shard, topic->id) == topic);
    amb_replay_end_all(topic);
    *amb_shard_topic_cell(shard, topic->id) = NULL; /* Nothing comes to it from here on. */
    topic_forget_readers(&order->mail, shard);
}

const struct amb_order_kind amb_order_topic_remove = {
    .run = topic_remove,
    .size = AMB_ORDER_SIZE(struct amb_order_topic),
    .answers_itself = true,
};

static void topic_purge(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_topic_purge *purge =
        AMB_CONTAINER_OF(order, struct amb_order_topic_purge, order);
    struct amb_topic *topic = amb_shard_topic(shard, purge->topic);
    if (topic == NULL) {
        order->status = AMB_ENOTFOUND;
        return;
    }
    amb_route_grants_all(topic); /* Entries stay in the log until they are granted. */
    purge->messages = amb_topic_purge(topic);
    amb_topic_purge_lent(topic);
}

const struct amb_order_kind amb_order_topic_purge = {
    .run = topic_purge,
    .size = AMB_ORDER_SIZE(struct amb_order_topic_purge),
};

static void topic_matched(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_topic_matched *told =
        AMB_CONTAINER_OF(order, struct amb_order_topic_matched, order);
    struct amb_topic *topic = amb_shard_topic(shard, told->topic);
    if (topic != NULL) {
        topic->audience.matched = told->matched;
    }
}

const struct amb_order_kind amb_order_topic_matched = {
    .run = topic_matched,
    .size = AMB_ORDER_SIZE(struct amb_order_topic_matched),
};

static void topic_awake(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_topic_awake *awake =
        AMB_CONTAINER_OF(order, struct amb_order_topic_awake, order);
    struct amb_topic *topic = amb_shard_topic(shard, awake->topic);
    if (topic != NULL) {
        amb_route_awake(topic);
    }
}

const struct amb_order_kind amb_order_topic_awake = {
    .run = topic_awake,
    .size = AMB_ORDER_SIZE(struct amb_order_topic_awake),
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
    struct amb_subscription *sub = amb_session_subscription(session, handle);
    /* Not one that has ended and keeps the handle until its deliveries are back. */
    if (sub == NULL || sub->id != sub_id || sub->has_ended || topic == NULL) {
        order->status = AMB_ENOTFOUND;
        return;
    }
    order->status = amb_subscription_attach(sub, topic, begun);
}

static void cursor_attach(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_cursor_attach *attach =
        AMB_CONTAINER_OF(order, struct amb_order_cursor_attach, order);
    struct amb_topic *topic = amb_shard_topic(shard, attach->topic);
    struct amb_begun begun = {0};
    if (topic != NULL) {
        amb_begin_find(topic, &attach->begin, &begun);
    }
    order_attach(shard, order, attach->handle, attach->sub, topic, &begun);
    if (order->status != AMB_OK) {
        amb_prelude_free(&begun.prelude, shard);
    }
}

const struct amb_order_kind amb_order_cursor_attach = {
    .run = cursor_attach,
    .size = AMB_ORDER_SIZE(struct amb_order_cursor_attach),
};

/* At the borrower. */
static void lend_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_order_lend *lend = AMB_CONTAINER_OF(mail, struct amb_order_lend, order.mail);
    const struct amb_shard *shard = owner;
    struct amb_topic *topic = lend->attach_to;
    if (topic == NULL) {
        topic = amb_shard_topic(owner, lend->topic);
    } else {
        amb_list_push_back(&topic->privates.namesake->privates.all, &topic->privates.node);
        amb_topic_use_config(topic, shard->live); /* Home may not have gone over to it yet. */
    }
    order_attach(owner, &lend->order, lend->handle, lend->sub, topic, &lend->begun);
    if (lend->order.status != AMB_OK) {
        amb_prelude_free(&lend->begun.prelude, owner);
    }
    amb_order_answer(&lend->order);
}

/* It begins in history: with a shadow of its own. False: it does not, or cannot for want of memory,
 * and begins at the end. */
static bool order_replay(struct amb_topic *topic, struct amb_order_lend *lend)
{
    struct amb_begun *begun = &lend->begun;
    amb_begin_find(topic, &lend->begin, begun);
    if (begun->position < topic->log.hi) {
        lend->attach_to = amb_replay_begin(topic, lend->borrower, lend->sub, lend->holding > 0,
                                           lend->spilling > 0, lend->shadow, begun);
    }
    return lend->attach_to != NULL;
}

static void lend_answer(struct amb_shard *shard, struct amb_order_lend *lend, bool attaches)
{
    if (attaches) {
        amb_mail_post(&shard->peers[lend->borrower]->inbox, &lend->order.mail, lend_arrived);
    } else {
        amb_order_answer(&lend->order);
    }
}

static void topic_lend(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_lend *change = AMB_CONTAINER_OF(order, struct amb_order_lend, order);
    struct amb_topic *topic = amb_shard_topic(shard, change->topic);
    if (topic == NULL) {
        order->status = AMB_ENOTFOUND;
        amb_order_answer(order);
        return;
    }
    bool is_new = change->subs > 0;
    if (is_new ? order_replay(topic, change) : amb_replay_end(topic, change->sub)) {
        lend_answer(shard, change, is_new);
        return;
    }
    struct amb_lend *lend = &topic->lending.lends[change->borrower];
    if (lend->subs == 0) {
        lend->position = topic->log.hi; /* Reading begins now. */
        lend->shadow = change->shadow;
    }
    amb_topic_count_lent(topic, lend, change->subs, change->holding, change->spilling);
    lend_answer(shard, change, is_new);
}

const struct amb_order_kind amb_order_lend = {
    .run = topic_lend,
    .size = AMB_ORDER_SIZE(struct amb_order_lend),
    .answers_itself = true,
};

static void topic_recount(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_order_recount *change =
        AMB_CONTAINER_OF(order, struct amb_order_recount, order);
    struct amb_topic *topic = amb_shard_topic(shard, change->topic);
    if (topic == NULL) {
        return; /* It has gone. */
    }
    struct amb_lend *lend = amb_replay_lend(topic, change->sub);
    lend = lend != NULL ? lend : &topic->lending.lends[change->borrower];
    amb_topic_count_lent(topic, lend, 0, change->holding, change->spilling);
}

const struct amb_order_kind amb_order_recount = {
    .run = topic_recount,
    .size = AMB_ORDER_SIZE(struct amb_order_recount),
};
