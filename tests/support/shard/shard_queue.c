/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_queue.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/worker/orders_subscription.h"
#include "broker/worker/orders_topic.h"

#include "broker/topic/topic.h"
#include "broker/worker/orders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t next_id = UINT64_C(1) << 40;

static void expect_ok(void *control, struct amb_order *order)
{
    (void)control;
    assert_int_equal(order->status, AMB_OK);
    amb_order_free(order);
}

static void *order_of(const struct amb_order_kind *kind)
{
    struct amb_order *order = amb_order_new(kind, expect_ok, NULL);
    assert_non_null(order);
    return order;
}

void harness_queue_open(struct shard_harness *harness, unsigned shard,
                        const struct amb_queue_options *options, struct harness_queue *out)
{
    *out = (struct harness_queue){.harness = harness, .id = ++next_id, .shard = shard};
    out->options = options == NULL
                       ? (struct amb_queue_options){.ack = AMB_ACK_EXPLICIT,
                                                    .ack_wait_ns = AMB_ACK_WAIT_DEFAULT_NS}
                       : *options;
    struct amb_order_queue_open *open = order_of(&amb_order_queue_open);
    open->id = out->id;
    open->options = out->options;
    amb_order_post(harness->peers[shard], &open->order);
    harness_settle(harness);
}

static void queue_lend(struct harness_queue *queue, uint32_t topic, int change)
{
    struct shard_harness *h = queue->harness;
    struct amb_order_lend *lend = order_of(&amb_order_lend);
    lend->order.session.shard = queue->shard;
    lend->sub = queue->id;
    lend->handle = AMB_QUEUE_HANDLE;
    lend->topic = topic;
    lend->borrower = queue->shard;
    lend->begin = queue->begin;
    lend->subs = lend->holding = change;
    lend->shadow = harness_topic_on(h, topic, queue->shard);
    amb_order_post(h->peers[h->topic_home[topic]], &lend->order);
}

void harness_queue_read(struct harness_queue *queue, uint32_t topic)
{
    struct shard_harness *h = queue->harness;
    if (h->topic_home[topic] == queue->shard) {
        struct amb_order_cursor_attach *attach = order_of(&amb_order_cursor_attach);
        attach->sub = queue->id;
        attach->handle = AMB_QUEUE_HANDLE;
        attach->topic = topic;
        attach->begin = queue->begin;
        amb_order_post(h->peers[queue->shard], &attach->order);
    } else {
        queue_lend(queue, topic, +1);
    }
    queue->topics[queue->topic_count++] = topic;
    harness_settle(h);
}

struct amb_queue *harness_queue(const struct harness_queue *queue)
{
    return amb_shard_queue(queue->harness->peers[queue->shard], queue->id);
}

void harness_queue_close(struct harness_queue *queue)
{
    struct shard_harness *h = queue->harness;
    for (unsigned i = 0; i < queue->topic_count; i++) {
        if (h->topic_home[queue->topics[i]] != queue->shard) {
            queue_lend(queue, queue->topics[i], -1);
        }
    }
    struct amb_order_queue_close *close = order_of(&amb_order_queue_close);
    close->id = queue->id;
    amb_order_post(h->peers[queue->shard], &close->order);
    harness_settle(h);
}

void client_join(struct shard_client *client, uint32_t handle, const struct harness_queue *queue,
                 const struct amb_subscription_options *options)
{
    static const struct amb_subscription_options plain;
    struct client_sub *sub = &client->subs[handle];
    assert_false(sub->is_open);
    free(sub->deliveries);
    *sub = (struct client_sub){
        .is_open = true, .id = ++next_id, .options = options == NULL ? plain : *options};
    struct amb_order_subscription_open *open = order_of(&amb_order_subscription_open);
    open->order.session =
        (struct amb_session_id){client->shard, (uint32_t)client->id, client->session->generation};
    open->handle = handle;
    open->id = sub->id;
    open->options = sub->options;
    open->queue = queue->id;
    open->queue_home = queue->shard;
    open->queue_options = queue->options;
    amb_order_post(client->harness->peers[client->shard], &open->order);
    harness_settle(client->harness);
}

void client_quit(struct shard_client *client, uint32_t handle, uint64_t acks)
{
    struct amb_order_subscription_close *close = order_of(&amb_order_subscription_close);
    close->order.session =
        (struct amb_session_id){client->shard, (uint32_t)client->id, client->session->generation};
    close->handle = handle;
    close->acks = acks;
    amb_order_post(client->harness->peers[client->shard], &close->order);
    client->subs[handle].is_open = false;
    harness_settle(client->harness);
}

uint32_t client_count(const struct shard_client *client, uint32_t handle, uint64_t number)
{
    const struct amb_frame *frame = &client_delivery(client, handle, number)->frame;
    return frame->count - frame->first - frame->rest;
}

void client_say(struct shard_client *client, uint32_t handle, uint64_t number, uint32_t first,
                uint32_t count, enum amb_ack_kind kind, int64_t delay_ns)
{
    client_send_frame(client, &(struct amb_frame){.type = AMB_FRAME_ACK,
                                                  .handle = handle,
                                                  .number = number,
                                                  .first = first,
                                                  .count = count,
                                                  .status = (int32_t)kind,
                                                  .time_ns = delay_ns});
    harness_settle(client->harness);
}

void client_ack(struct shard_client *client, uint32_t handle, uint64_t number)
{
    client_say(client, handle, number, 0, client_count(client, handle, number), AMB_ACK_KIND_ACK,
               0);
}

void client_term(struct shard_client *client, uint32_t handle, uint64_t number, const char *reason)
{
    client_send_body(client,
                     &(struct amb_frame){.type = AMB_FRAME_TERM,
                                         .handle = handle,
                                         .number = number,
                                         .count = client_count(client, handle, number),
                                         .status = AMB_ACK_KIND_TERM,
                                         .data_len = strlen(reason)},
                     reason);
    harness_settle(client->harness);
}
