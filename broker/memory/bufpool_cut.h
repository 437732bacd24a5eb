/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer that was made for several pieces is given out piece by piece.
 * Threads: the pool's owner. Memory: none.
 */
#pragma once

#include "broker/memory/bufpool.h"

/* Is it a run? */
static inline bool amb_bufpool_may_cut(const struct amb_buf *buf)
{
    return buf->cls >= AMB_BUF_RUNS && buf->cls < AMB_BUF_HEAP;
}
/* Gives `out` the first pages of a run, as many as make a class that holds len bytes, and leaves
 * the others in `from`. False: `from` is no run, or has no page to spare. */
bool amb_bufpool_cut(struct amb_buf *from, uint64_t len, struct amb_buf *out);
