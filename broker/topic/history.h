/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of history with time. It is given up first, oldest first, when the log or the memory
 * is full (append.c). History that lies in a publisher's slots is copied out of them once all
 * readers have passed it. So a publisher does not wait for its own history. Messages that have
 * grown too old go, also where nothing moves.
 *
 * Threads: the shard's worker. Memory: copies come from the shard's pool.
 */
#pragma once

#include <stdint.h>

struct amb_shard;
struct amb_topic;

/* After a walk of a topic that keeps history: copies what is leased, some at a time. */
void amb_history_settle(struct amb_topic *topic);
/* Now and then: topics in which something has grown too old are walked. Returns when it is to be
 * called again; INT64_MAX: when something has been appended. */
int64_t amb_history_tick(struct amb_shard *shard);
