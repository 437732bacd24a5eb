/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about subscriptions and the queues that some of them are members of: opened, waited for,
 * closed.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"

void amb_order_subscription_open(struct amb_shard *shard, struct amb_order *order);
/* A member's: answered when acks have come; it may be stopped before. */
void amb_order_subscription_sync(struct amb_shard *shard, struct amb_order *order);
/* A queue begins, and ends: its takes are dropped. */
void amb_order_queue_open(struct amb_shard *shard, struct amb_order *order);
void amb_order_queue_close(struct amb_shard *shard, struct amb_order *order);
void amb_order_subscription_close(struct amb_shard *shard, struct amb_order *order);
