/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: the one copy that a message may cost after it came.
 *
 * Small allocations share slabs of 64 KiB. When most of a slab has come back, the rest may wait in
 * the log of a topic with a slow reader. Then that rest keeps the whole slab. So a burst can leave
 * a pool that is all but empty and has nothing to give. Objects that have waited for a second in a
 * slab of which at most a quarter lives are therefore copied to a denser place.
 *
 *      log ─► entry ─► [ . . x . . . . . ]  slab, x lives
 *                └───► [ x x x x o x x . ]  denser slab, o is its copy
 *
 * An object can move when its log alone refers to it: nobody reads it, no link sends it, no client
 * has it mapped. An entry of another worker's publisher moves to the pool of the log's worker, if
 * its home has said that it has many such slabs. A body that is delivered in place stays until it
 * is given back. Runs of pages and segments stay too: nothing but a body fills them.
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
/* A shard that sleeps goes on with a walk after that time; INT64_MAX: there is none. */
int64_t amb_compact_due(struct amb_shard *shard);
