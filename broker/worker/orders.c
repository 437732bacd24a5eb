/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_private.h"

#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdlib.h>

void *amb_order_new(const struct amb_order_kind *kind, amb_order_done_fn done, void *context)
{
    struct amb_order *order = calloc(1, kind->size);
    if (order != NULL) {
        order->kind = kind;
        order->done = done;
        order->context = context;
    }
    return order;
}

void amb_order_renew(struct amb_order *order, const struct amb_order_kind *kind,
                     amb_order_done_fn done)
{
    amb_assert(kind->size == order->kind->size && kind->fini == order->kind->fini);
    order->kind = kind;
    order->done = done;
}

void amb_order_free(struct amb_order *order)
{
    if (order != NULL && order->kind->fini != NULL) {
        order->kind->fini(order);
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
    const struct amb_order_kind *kind = order->kind; /* The order may be gone after run. */
    if (kind->run != NULL) {
        kind->run(owner, order);
    }
    if (!kind->answers_itself) {
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

const struct amb_order_kind amb_order_nothing = {.size = sizeof(struct amb_order)};
