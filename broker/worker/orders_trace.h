/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about traces (shard/trace.h): armed, and disarmed. Each worker has each of them.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"

struct amb_trace;

struct amb_order_trace {
    struct amb_order order;
    struct amb_trace *trace;
};
/* ELIMIT: so many are armed. */
extern const struct amb_order_kind amb_order_trace_arm;
/* The worker does not touch the trace from here on. */
extern const struct amb_order_kind amb_order_trace_disarm;
