/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about leases. Their pages are the maker's work, some at a time. So an order goes to and
 * fro between worker and maker until all of them are there.
 *
 * Threads: the order's worker, and the maker.
 */
#pragma once

#include "broker/worker/orders.h"

/* These two go on for some turns, as they allocate pages. */
extern const struct amb_order_kind amb_order_lease_open;
extern const struct amb_order_kind amb_order_lease_mapped;
extern const struct amb_order_kind amb_order_lease_close;
