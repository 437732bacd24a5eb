/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/drain.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/directory/queues.h"
#include "broker/control/door.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/codec/control.h"
#include "wire/link/link.h"

#include <stdio.h>
#include <string.h>

/* Deliveries that their client does not give back hold the end up for so long only. */
#define DRAIN_HELD_NS (2 * AMB_NS_PER_SEC)
/* Behind its time it waits so long for workers to count what is left. */
#define DRAIN_COUNT_NS (AMB_NS_PER_SEC / 4)
/* Twice in a row nothing is left: what moved between two workers meanwhile has arrived. */
#define DRAIN_IDLE_ROUNDS 2u

/* Messages that readers here have not read yet. */
static uint64_t topic_left(struct amb_topic *topic)
{
    uint64_t left = amb_topic_unread(topic);
    AMB_LIST_FOR_EACH (node, &topic->audience.waiting) {
        left += AMB_CONTAINER_OF(node, struct amb_entry, pending)->count;
    }
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        left += amb_topic_unread(AMB_CONTAINER_OF(node, struct amb_topic, privates.node));
    }
    return left;
}

struct drain_order {
    struct amb_order order;
    uint64_t left, held; /* out: messages not sent yet, not given back yet */
};

/* On the worker: refuses batches from now on, and says what is left. */
static void drain_look(struct amb_shard *shard, struct amb_order *order)
{
    shard->is_draining = true;
    uint64_t left = 0;
    for (uint32_t i = 0; i < shard->topics.cells; i++) {
        left += shard->topics.at[i] == NULL ? 0 : topic_left(shard->topics.at[i]);
    }
    AMB_LIST_FOR_EACH (node, &shard->takers.all) {
        const struct amb_taker *taker = AMB_CONTAINER_OF(node, struct amb_taker, node);
        bool is_up = amb_session_is_up(taker->sub->session);
        AMB_LIST_FOR_EACH (take_node, &taker->waiting) {
            left += is_up ? AMB_CONTAINER_OF(take_node, struct amb_take, node)->left : 0;
        }
    }
    uint64_t held = 0;
    AMB_LIST_FOR_EACH (node, &shard->sessions.live) {
        const struct amb_session *s = AMB_CONTAINER_OF(node, struct amb_session, live);
        left += amb_session_is_up(s) ? s->link->queued : 0;
        AMB_LIST_FOR_EACH (sub_node, &s->subscription_list) {
            held += amb_subscription_out(AMB_CONTAINER_OF(sub_node, struct amb_subscription, node));
        }
    }
    struct drain_order *answer = AMB_CONTAINER_OF(order, struct drain_order, order);
    answer->left = left;
    answer->held = held;
}

static const struct amb_order_kind drain_kind = {
    .run = drain_look,
    .size = AMB_ORDER_SIZE(struct drain_order),
};

static void drain_looked(void *owner, struct amb_order *order)
{
    struct amb_control *control = owner;
    const struct drain_order *answer = AMB_CONTAINER_OF(order, struct drain_order, order);
    control->backlog += answer->left;
    control->held += answer->held;
    control->backlog_orders--;
    amb_order_free(order);
}

static void drain_ask(struct amb_control *control)
{
    control->backlog = 0;
    control->held = 0;
    control->is_backlog_partial = false;
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_order *order = amb_order_new(&drain_kind, drain_looked, NULL);
        if (order == NULL) { /* Its rest is not known, so the drain goes on. */
            control->is_backlog_partial = true;
            continue;
        }
        control->backlog_orders++;
        amb_order_post(control->shards[i], order);
    }
}

/* left: messages that nobody will get. */
static void drain_end_clients(struct amb_control *control, uint64_t left)
{
    char text[AMB_CONTROL_TEXT_MAX] = "the broker is shutting down";
    if (left > 0) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, ": %llu messages are left",
                       (unsigned long long)left);
    }
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->state != AMB_CLIENT_ENDING) {
            amb_client_send_error(client, 0, AMB_ECLOSED, "%s", text);
        }
    }
}

static int64_t limit_ns(const struct amb_control *control)
{
    return control->drain_limit_ns >= 0 ? control->drain_limit_ns
                                        : control->config->limits.drain_timeout_ns;
}

/* Lame: a client that has another host may go there, the others wait for the next broker here. */
static void drain_notice(struct amb_control *control)
{
    Amb__Control__Draining draining = AMB__CONTROL__DRAINING__INIT;
    draining.timeout_ns = limit_ns(control);
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_DRAINING;
    message.draining = &draining;
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->state == AMB_CLIENT_LIVE) {
            amb_client_send(client, &message, NULL, 0);
        }
    }
}

void amb_drain_begin(struct amb_control *control)
{
    control->drain_calls++;
    if (control->is_draining) {
        control->drain_deadline_ns = control->now_ns;
        return;
    }
    amb_queues_end(&control->directory);
    control->is_draining = true;
    amb_stat_set(&control->stats->draining, 1);
    control->drain_started_ns = control->now_ns;
    control->drain_deadline_ns = amb_deadline_ns(control->now_ns, limit_ns(control));
    amb_info("draining");
    amb_door_close(control);
    drain_notice(control);
    drain_ask(control);
}

static bool drain_is_done(struct amb_control *control)
{
    bool is_empty =
        control->backlog == 0 && !control->is_backlog_partial &&
        (control->held == 0 || control->now_ns - control->drain_started_ns > DRAIN_HELD_NS);
    control->idle_backlogs = is_empty ? control->idle_backlogs + 1 : 0;
    return control->idle_backlogs >= DRAIN_IDLE_ROUNDS;
}

void amb_drain_tick(struct amb_control *control)
{
    if (!control->is_draining || control->is_over) {
        return;
    }
    bool is_late = control->now_ns >= control->drain_deadline_ns;
    if (!is_late) {
        if (control->backlog_orders > 0) {
            return;
        }
        if (!drain_is_done(control)) {
            drain_ask(control);
            return;
        }
    } else if (control->backlog_orders > 0 &&
               control->now_ns - control->drain_deadline_ns < DRAIN_COUNT_NS) {
        return; /* Workers have not said how much is left. */
    } else if (control->backlog > 0 || control->is_backlog_partial) {
        amb_warn("drain: %llu messages are left after the timeout%s",
                 (unsigned long long)control->backlog,
                 control->is_backlog_partial
                     ? ", and those of workers for whose count there was no memory"
                     : "");
    }
    control->is_over = true;
    drain_end_clients(control, is_late ? control->backlog : 0);
}
