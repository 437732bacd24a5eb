/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How readers stand to traced batches (shard/trace.h) in the logs of a shard. They are held, have
 * left a batch out, or have lost it, each for a reason.
 *
 * Deliveries are noted where they are made. The rest is found out by looking: once a turn, behind
 * the walks, and only while there are such batches. So readers that wait pay nothing for it.
 *
 * Threads: the shard's worker. Memory: the trace's.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_shard;
struct amb_topic;

#define AMB_TRACED_LOOKS 4096u /* at readers, in one turn */

/* Behind the walks of a turn. */
void amb_traced_look(struct amb_shard *shard);
/* amb_shard_trace.end */
void amb_traced_end(struct amb_topic *topic, const struct amb_entry *entry, uint64_t position);
