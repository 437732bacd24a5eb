/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/orders_trace.h"

#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/shard/trace.h"

static void trace_arm(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_trace *trace = AMB_CONTAINER_OF(order, struct amb_order_trace, order)->trace;
    /* Traced batches shall not ask the heap: one tally each, and one for each that it is lent to.
     */
    amb_tallies_reserve(shard, trace->batches * shard->peer_count);
    order->status = amb_trace_arm(shard, trace) ? AMB_OK : AMB_ELIMIT;
}

const struct amb_order_kind amb_order_trace_arm = {
    .run = trace_arm,
    .size = AMB_ORDER_SIZE(struct amb_order_trace),
};

static void trace_disarm(struct amb_shard *shard, struct amb_order *order)
{
    amb_trace_disarm(shard, AMB_CONTAINER_OF(order, struct amb_order_trace, order)->trace);
}

const struct amb_order_kind amb_order_trace_disarm = {
    .run = trace_disarm,
    .size = AMB_ORDER_SIZE(struct amb_order_trace),
};
