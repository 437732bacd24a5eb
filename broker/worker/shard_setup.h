/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard's beginning and end, and its limits. This file is apart from shard.c, because it begins
 * and ends parts of rooms above the shard: session, topic, delivery.
 *
 * Threads: the starting thread, before the worker begins and after it has ended; limits, the
 * worker.
 */
#pragma once

#include "broker/shard/shard.h"
#include "broker/worker/orders.h"

/* Everything but threads and UCX. budget: shared by all shards. ENOMEM, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_shard_init(struct amb_shard *shard, unsigned index,
                                              const struct amb_config *config,
                                              struct amb_membudget *budget);
/* From here on these are in force; they stay the caller's. */
void amb_shard_set_limits(struct amb_shard *shard, const struct amb_config_limits *limits);
/* The same by order. */
struct amb_order_limits {
    struct amb_order order;
    const struct amb_config_limits *limits;
};
extern const struct amb_order_kind amb_order_limits;
/* Sessions and topics are gone before. */
void amb_shard_fini(struct amb_shard *shard);
