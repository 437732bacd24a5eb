/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dedicated segments: a buffer of more than half a segment has one for itself. The last few that
 * were freed are kept for the next such buffer.
 *
 * Threads: the pool's worker. Memory: a segment and its table for each.
 */
#pragma once

#include "broker/memory/pool_segment.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_buf;
struct amb_bufpool;
struct amb_extent;
struct amb_segment;

/* ENOMEM, EAGAIN as the claim says, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_dedicated_alloc(struct amb_bufpool *pool, uint64_t len,
                                                   enum amb_claim claim, struct amb_buf *out);
void amb_dedicated_free(struct amb_bufpool *pool, struct amb_extent *extent);
/* Of those that are kept, the one that has been there for longest goes. */
void amb_dedicated_drop(struct amb_bufpool *pool, bool later);
/* Takes bytes of the budget; those that are kept go for it. False: there are not so many. */
bool amb_dedicated_charge(struct amb_bufpool *pool, uint64_t bytes);
/* One that was made elsewhere, for whoever waits for it. */
void amb_dedicated_adopt(struct amb_bufpool *pool, struct amb_segment *segment);
/* Nobody waits for it any more: it is kept like others. */
void amb_dedicated_served(struct amb_bufpool *pool);
