/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: the one copy that a message may cost after it came.
 *
 * Small allocations share slabs of 64 KiB. When most of a slab has come back and the rest waits in
 * the log of a topic with a slow reader, that rest keeps the whole slab: a burst can leave a pool
 * that is all but empty and has nothing to give. So what has waited for a second in a slab of which
 * at most a quarter lives is copied to a denser place.
 *
 *      log ─► entry ─► [ . . x . . . . . ]  slab, x lives        what can move: referred to by its
 *                └───► [ x x x x o x x . ]  denser slab          log alone, nobody reads it, no
 * link sends it, no client has it mapped
 *
 * An entry whose publisher is another worker's moves to the pool of the log's worker, if its home
 * has said that it has many such slabs. What is delivered in place stays where it is until it is
 * given back; runs of pages and segments stay too: nothing but a body fills them.
 *
 * Threads: the shard's worker. Memory: of the bufpool; bounded work a call.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdint.h>

#define AMB_COMPACT_AGE_NS (1 * AMB_NS_PER_SEC)
#define AMB_COMPACT_SLABS_MIN 16u /* with fewer sparse ones nothing is done */
#define AMB_COMPACT_STEP_NS (10 * AMB_NS_PER_MS)

struct amb_shard;

/* A step of the walk, if one is due. Returns when the next one is. */
int64_t amb_compact_run(struct amb_shard *shard);
