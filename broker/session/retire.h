/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retiring a segment: its memory goes back to the system only when every client that has mapped it
 * has let go. Each shard tells its own sessions, by a SEG_DROP frame; a session whose client has
 * not answered the offer yet is told when it does.
 * Threads: amb_retire_segment on the segment's own shard; the rest on each shard.
 */
#pragma once

#include <stdint.h>

struct amb_session;
struct amb_shard;

/* The shard's segment_gone upcall. */
void amb_retire_segment(struct amb_shard *shard, uint64_t segment);
/* The client has mapped a segment: SEG_READY. */
void amb_retire_or_use(struct amb_session *session, uint64_t segment);
