/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's own messages: a message without a publisher.
 * Threads: the topic's home. Memory: the message's, from the shard's pools.
 */
#pragma once

#include "broker/worker/orders.h"

#include <stdint.h>

/* ENOTFOUND, ENOMEM, or the topic's refusal. */
struct amb_order_announce {
    struct amb_order order;
    uint32_t topic;
    char *text; /* freed with the order */
};
extern const struct amb_order_kind amb_order_announce;
