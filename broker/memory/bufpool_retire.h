/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool is emptied by taking its segments away: they take nothing new. A process that has lost its
 * rights may keep them mapped, and nobody can say which of them it has.
 *
 *   pool ── all segments, with what lies there ──► retired pool ── trim ──► limbo ──► gone
 *     └─ goes on with segments that are made from here on
 *
 * Threads: the pool's worker. Memory: none.
 */
#pragma once

#include "broker/memory/bufpool.h"

/*
 * Moves all that the pool has to `out`, which is not a pool yet. The pool keeps what it has
 * reserved, though it has no room for it. Buffers are freed by amb_buf_free as before. The segments
 * are private from here on: they are offered to nobody, and never used again.
 */
void amb_bufpool_retire(struct amb_bufpool *pool, struct amb_bufpool *out);
