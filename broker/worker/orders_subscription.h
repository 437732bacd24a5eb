/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about subscriptions and the queues that some of them are members of: opened, waited for,
 * closed.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"

extern const struct amb_order_kind amb_order_subscription_open;
/* A member's: answered when acks have come; it may be stopped before. */
extern const struct amb_order_kind amb_order_subscription_sync;
/* A queue begins, and ends: its takes are dropped. */
extern const struct amb_order_kind amb_order_queue_open;
extern const struct amb_order_kind amb_order_queue_close;
extern const struct amb_order_kind amb_order_subscription_close;
