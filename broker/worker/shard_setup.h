/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard's beginning and end, and its configuration. This file is apart from shard.c, because it
 * begins and ends parts of rooms above the shard: session, topic, delivery.
 *
 * Threads: the starting thread, before the worker begins and after it has ended; the
 * order, the worker.
 */
#pragma once

#include "broker/shard/shard.h"
#include "broker/worker/orders.h"

/* Everything but threads and UCX. budget: shared by all shards. ENOMEM, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_shard_init(struct amb_shard *shard, unsigned index,
                                              const struct amb_config *config,
                                              struct amb_membudget *budget);
/* Another configuration is in force, for limits at once, and for one topic after the other.
 * Answered when all have gone over to it. */
struct amb_order_config {
    struct amb_order order;
    const struct amb_config *config; /* a reference, which the order has; NULL: taken over */
    uint32_t next;                   /* the worker's: the cell of the next topic */
};
extern const struct amb_order_kind amb_order_config;
/* Sessions and topics are gone before. */
void amb_shard_fini(struct amb_shard *shard);
