/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about a session and its publishers. Those about its life are unpacked here and carried out
 * by session_life.h.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"

extern const struct amb_order_kind amb_order_session_open;
extern const struct amb_order_kind amb_order_session_raise_mapped;
extern const struct amb_order_kind amb_order_session_attach;
extern const struct amb_order_kind amb_order_session_close;
extern const struct amb_order_kind amb_order_session_release;
/* Its answer says more: sessions that were closed before have been heard to their end, and nothing
 * comes from them any more. */
extern const struct amb_order_kind amb_order_fence;
/* The same of one session, which was closed before, and without a wait for others. */
extern const struct amb_order_kind amb_order_session_heard;
extern const struct amb_order_kind amb_order_publisher_open;
extern const struct amb_order_kind amb_order_publisher_close;
extern const struct amb_order_kind amb_order_publisher_subscribers;
extern const struct amb_order_kind amb_order_segment_refused;
