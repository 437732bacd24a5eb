/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the broker itself publishes: a message without a publisher.
 * Threads: the topic's home. Memory: the message's, from the shard's pools.
 */
#pragma once

#include "broker/worker/orders.h"

/* u.announce. ENOTFOUND, ENOMEM, or what the topic says. */
void amb_order_announce(struct amb_shard *shard, struct amb_order *order);
