/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about a session and its publishers. Those about its life are unpacked here and carried out
 * by session_life.h.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"

void amb_order_session_open(struct amb_shard *shard, struct amb_order *order);
void amb_order_session_raise_mapped(struct amb_shard *shard, struct amb_order *order);
void amb_order_session_attach(struct amb_shard *shard, struct amb_order *order);
void amb_order_session_close(struct amb_shard *shard, struct amb_order *order);
void amb_order_session_release(struct amb_shard *shard, struct amb_order *order);
/* Its answer says more: sessions that were closed before have been heard to their end, and nothing
 * comes from them any more. */
void amb_order_fence(struct amb_shard *shard, struct amb_order *order);
/* The same of one session, which was closed before, and without a wait for others. */
void amb_order_session_heard(struct amb_shard *shard, struct amb_order *order);
void amb_order_publisher_open(struct amb_shard *shard, struct amb_order *order);
void amb_order_publisher_close(struct amb_shard *shard, struct amb_order *order);
void amb_order_publisher_subscribers(struct amb_shard *shard, struct amb_order *order);
void amb_order_segment_refused(struct amb_shard *shard, struct amb_order *order);
