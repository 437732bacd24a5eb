/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of a pool: how they come (made here, made elsewhere, taken back from readers that still
 * have them mapped) and how they go.
 *
 * Threads: the pool's worker. Memory: segments, charged to the budget whole.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_bufpool;
struct amb_extent;
struct amb_segment;

/* How the caller of an allocation stands. */
enum amb_claim {
    AMB_CLAIM_NOW,
    AMB_CLAIM_GRANTED, /* its bytes were reserved for it */
    AMB_CLAIM_LATER,   /* it comes again: EAGAIN in place of making a segment here */
};

static inline uint64_t amb_pool_round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* It is one of the pool's, and nobody has had it before. */
void amb_pool_segment_new(struct amb_bufpool *pool, struct amb_segment *segment);
/* Has a segment made elsewhere, of bytes that the budget was charged with. False: it cannot be; the
 * charge stays with the caller. */
bool amb_pool_segment_ask(struct amb_bufpool *pool, uint64_t bytes, bool is_dedicated);
/* Makes and enters a segment of bytes that the budget was charged with; gives them back on
 * failure. */
AMB_MUST_CHECK enum amb_status amb_pool_segment_make(struct amb_bufpool *pool, uint64_t bytes,
                                                     struct amb_segment **out);
/* Enters one that a reader still has mapped: charged already, and registered anew. False: none. */
bool amb_pool_segment_reuse(struct amb_bufpool *pool, uint64_t least, uint64_t most,
                            struct amb_segment **out);
/* Its bytes are back in the budget at once, or later if that will do. */
void amb_pool_segment_unmake(struct amb_bufpool *pool, struct amb_segment *segment, bool later);
/* The same, with its pages. */
void amb_pool_extent_unmake(struct amb_bufpool *pool, struct amb_extent *extent, bool later);
