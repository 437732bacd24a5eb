/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues for the shard harness. They are made and joined by the orders that the control thread
 * would post, and scripted members answer their deliveries.
 * Threads: one. Memory: queues end in harness_queue_close.
 */
#pragma once

#include "broker/delivery/acks/queue.h"
#include "broker/topic/begin.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

struct harness_queue {
    struct shard_harness *harness;
    uint64_t id;
    unsigned shard;
    struct amb_queue_options options;
    struct amb_begin begin; /* of the topics to come; as it is opened: what is new */
    uint32_t topics[CLIENT_TOPICS];
    unsigned topic_count;
};

/* options NULL: explicit acks, 30 s. */
void harness_queue_open(struct shard_harness *harness, unsigned shard,
                        const struct amb_queue_options *options, struct harness_queue *out);
void harness_queue_read(struct harness_queue *queue, uint32_t topic);
/* NULL: it is gone. */
struct amb_queue *harness_queue(const struct harness_queue *queue);
void harness_queue_close(struct harness_queue *queue);

/* The client's subscription with that handle is a member. options NULL: all defaults. */
void client_join(struct shard_client *client, uint32_t handle, const struct harness_queue *queue,
                 const struct amb_subscription_options *options);
/* Unsubscribed, after so many ACK frames. */
void client_quit(struct shard_client *client, uint32_t handle, uint64_t acks);
/* Of messages first .. first+count-1 of a delivery, as it came. */
void client_say(struct shard_client *client, uint32_t handle, uint64_t number, uint32_t first,
                uint32_t count, enum amb_ack_kind kind, int64_t delay_ns);
/* All of a delivery. */
void client_ack(struct shard_client *client, uint32_t handle, uint64_t number);
void client_term(struct shard_client *client, uint32_t handle, uint64_t number, const char *reason);
/* How many messages a delivery gave. */
uint32_t client_count(const struct shard_client *client, uint32_t handle, uint64_t number);
