/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_private.h"

#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_lease.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_subscription.h"
#include "broker/worker/orders_topic.h"
#include "broker/worker/shard_setup.h"

#include <stdlib.h>

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
        (void)!amb_link_close(order->u.open.ring); /* Nobody has taken it. */
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

void amb_order_answer(struct amb_order *order)
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
        order->run == amb_order_session_close || order->run == amb_order_session_release ||
        order->run == amb_order_subscription_open || order->run == amb_order_subscription_close ||
        order->run == amb_order_subscription_sync || order->run == amb_order_publisher_close ||
        order->run == amb_order_lend || order->run == amb_order_topic_remove ||
        order->run == amb_order_fence || order->run == amb_order_session_heard ||
        order->run == amb_order_lease_open || order->run == amb_order_lease_mapped;
    order->run(owner, order);
    if (!answers_itself) {
        amb_order_answer(order);
    }
}

void amb_order_post(struct amb_shard *shard, struct amb_order *order)
{
    order->shard = shard;
    amb_mail_post(&shard->inbox, &order->mail, order_arrived);
}

struct amb_session *amb_order_session(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    if (session == NULL || session->state != AMB_SESSION_OPEN) {
        order->status = AMB_ECLOSED;
        return NULL;
    }
    return session;
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
