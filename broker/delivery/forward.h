/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 5 of 6 (topic ─► forward ─► link): one walk of a topic takes every reader as far as its
 * credit and its link go. In place where the client has mapped the segment, else by copy; to
 * another worker by lending. A turn has AMB_FORWARD_TURN deliveries and looks at readers. So a
 * client that takes everything keeps the others waiting for no longer than that. Topics have slices
 * of them in turn, AMB_FORWARD_SLICE each, as long as there are some. A topic that has had none is
 * the first of its priority in the next turn. Topics are walked by priority, and each priority has
 * AMB_FORWARD_PART of a turn at least: high ones do not stop the low ones of others.
 *
 * Threads: the shard's worker. Memory: none but frames from the shard's pool.
 */
#pragma once

#include <stdint.h>

/* Some milliseconds: 4 were measured. */
#define AMB_FORWARD_TURN 8192u
#define AMB_FORWARD_PART (AMB_FORWARD_TURN / 4)
#define AMB_FORWARD_SLICE 64u /* of one topic, before the others of its priority have theirs */

struct amb_shard;
struct amb_topic;

/* Walks the topics that were marked, as far as a turn goes; returns how many. */
unsigned amb_forward_run(struct amb_shard *shard);
