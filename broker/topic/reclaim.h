/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers when memory or entries are short. Memory of this shard is given up in this order: free
 * segments, lazy payloads, messages that only slow readers want. Then the other shards are asked,
 * by mail, to do the same. That helps the next attempt.
 *
 * For a caller that cannot wait, some segments that wait for the maker are unmapped here before
 * that. Each takes milliseconds.
 *
 * A claim says whose entry the buffer or window is for, and whether one is reserved; NULL:
 * nobody's. Where its party has used up its share, entries lack.
 *
 * Threads: the shard's worker. Memory: the mail is part of the shard.
 */
#pragma once

#include "wire/base/clock.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Between two calls for help; a worker with starving publishers does not sleep for longer. */
#define AMB_RECLAIM_PAUSE_NS (5 * AMB_NS_PER_MS)

struct amb_buf;
struct amb_bufpool;
struct amb_entry_claim;
struct amb_shard;

/* One turn's work, for somebody who asks again in the next one. EAGAIN: a segment is being made, or
 * the walk over all topics has not ended. ENOMEM: not now; the other shards have been asked. */
AMB_MUST_CHECK enum amb_status amb_reclaim_alloc_some(struct amb_shard *shard,
                                                      struct amb_bufpool *pool, uint64_t len,
                                                      const struct amb_entry_claim *claim,
                                                      struct amb_buf *out);
/* For a caller that cannot wait. ENOMEM: not now, and the other shards have been asked. */
AMB_MUST_CHECK enum amb_status amb_reclaim_alloc(struct amb_shard *shard, struct amb_bufpool *pool,
                                                 uint64_t len, struct amb_buf *out);
/* The same of what was granted: it may have memory that is reserved. */
AMB_MUST_CHECK enum amb_status amb_reclaim_alloc_granted(struct amb_shard *shard,
                                                         struct amb_bufpool *pool, uint64_t len,
                                                         const struct amb_entry_claim *claim,
                                                         struct amb_buf *out);
/* The same where no memory is reserved for what was granted: it may have what others leave. */
AMB_MUST_CHECK enum amb_status amb_reclaim_alloc_short(struct amb_shard *shard,
                                                       struct amb_bufpool *pool, uint64_t len,
                                                       const struct amb_entry_claim *claim,
                                                       struct amb_buf *out);
/* Reserves bytes of a window (amb_bufpool_reserve); one turn's work, too. False: not now; there may
 * be room soon. */
AMB_MUST_CHECK bool amb_reclaim_reserve(struct amb_shard *shard, struct amb_bufpool *pool,
                                        uint64_t bytes, bool wide,
                                        const struct amb_entry_claim *claim);
/* Takes bytes of the budget for a lease segment, for which free segments go but no message does.
 * False: as ENOMEM. *is_coming: the maker is unmapping segments of this shard for it. */
AMB_MUST_CHECK bool amb_reclaim_lease(struct amb_shard *shard, uint64_t bytes, bool *is_coming);
