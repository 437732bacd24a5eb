/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of a shard come and go: pools and leases register each new one. The
 * upcall segment_gone hears of each that leaves.
 * Threads: the worker; amb_shard_segment_made also on the maker. Memory: the segment's owner's.
 */
#pragma once

#include "wire/base/status.h"

struct amb_segment;
struct amb_shard;

/* A segment has been made: registers it, so that links send from it without a copy. */
AMB_MUST_CHECK enum amb_status amb_shard_segment_made(struct amb_shard *shard,
                                                      struct amb_segment *segment);
/* It is about to be unmapped: the opposite, and the upcall hears of it. */
void amb_shard_segment_unmade(struct amb_shard *shard, struct amb_segment *segment);
/* Takes a segment over and unmaps it, without this worker waiting for that; the budget then gets
 * its bytes back. */
void amb_shard_segment_unmake(struct amb_shard *shard, struct amb_segment *segment);
