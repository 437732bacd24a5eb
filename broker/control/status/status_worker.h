/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of one worker: its memory and, by order, its sessions.
 *
 * Threads: the shard's worker.
 */
#pragma once

#include "broker/control/status/status_private.h"
#include "broker/worker/orders.h"

json_t *amb_status_shard_memory(const struct amb_shard *shard);
/* Its context is the query. It makes the rows that the query asks for, as far as one turn goes. */
struct amb_status_order {
    struct amb_order order;
    json_t *json;        /* out: an object */
    uint64_t at;         /* where the walk is, */
    bool is_done;        /* ... and whether that is its end */
    uint32_t row_budget; /* rows that may be made */
};
extern const struct amb_order_kind amb_status_collect;
