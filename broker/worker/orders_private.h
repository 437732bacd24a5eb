/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of orders share. These are orders_*.c, one for each subject.
 *
 * Threads: the worker.
 */
#pragma once

#include "broker/worker/orders.h"

struct amb_session;

/* Sends the order back with its answer, or frees it where nobody wants one. For kinds that answer
 * themselves; the order is not the caller's any more. */
void amb_order_answer(struct amb_order *order);
/* The order's session, if it is still open; else NULL, and the answer is ECLOSED. */
struct amb_session *amb_order_session(struct amb_shard *shard, struct amb_order *order);
