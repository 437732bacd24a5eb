/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 5 of 6 (topic ─► forward ─► link): one walk of a topic takes every reader as far as its
 * credit and its link go. In place where the client has mapped the segment, else by copy; to
 * another worker by lending.
 *
 * Threads: the shard's worker. Memory: none but frames from the shard's pool.
 */
#pragma once

#include <stdint.h>

struct amb_shard;
struct amb_topic;

/* Walks all topics that were marked; returns how many. */
unsigned amb_forward_run(struct amb_shard *shard);
/*
 * Readers that hold publishers back for longer than they may stop doing so until they have caught
 * up. Returns the time of the next such event, INT64_MAX if there is none.
 */
int64_t amb_forward_expire(struct amb_shard *shard);
