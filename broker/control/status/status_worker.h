/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of one worker: itself, its memory and, by order, its sessions and topics.
 *
 * Threads: the shard's worker.
 */
#pragma once

#include "broker/control/status/status_private.h"

json_t *amb_status_shard_worker(const struct amb_shard *shard);
json_t *amb_status_shard_memory(const struct amb_shard *shard);
/* The order of a question, whose context is the query: only what it is about, and as far as one
 * turn goes. */
extern const struct amb_order_kind amb_status_collect;
