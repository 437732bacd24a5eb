/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a reader may hold publishers back. A reader whose policy is block begins to hold when it
 * does not go on. It stops when it takes something, or when its time limit has passed; after that
 * it holds nobody back until it has caught up.
 *
 *   wait ─► holds, in shard->forward.blocked ─► went_on, caught_up
 *                     └── its limit passes (expire) ─► drops until it has caught up
 *
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"

#include <stdint.h>

struct amb_shard;

/* The cursor does not go on now, for whatever reason. */
void amb_hold_wait(struct amb_cursor *cursor);
/* It has taken something: its time limit begins anew. */
static inline void amb_hold_went_on(struct amb_cursor *cursor)
{
    cursor->hold.since_ns = 0;
    amb_list_remove(&cursor->hold.blocked);
}
/* It has read all that there is. */
void amb_hold_caught_up(struct amb_cursor *cursor);
/*
 * Readers that hold publishers back for longer than they may stop doing so until they have caught
 * up. Returns the time of the next such event, INT64_MAX if there is none.
 */
int64_t amb_hold_expire(struct amb_shard *shard);
