/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of a shard: a pool for each trust group, whose segments come and go by
 * shard_segments.h.
 *
 * Threads: the starting thread, before the worker begins and after it has ended; the window, the
 * worker. Memory: the pools' segments.
 */
#pragma once

#include "broker/shard/shard.h"
#include "wire/base/status.h"

#include <stdint.h>

struct amb_config;
struct amb_membudget;
struct amb_shard;

/* After the shard's inbox. budget: shared by all shards. ENOMEM, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_shard_memory_init(struct amb_shard *shard,
                                                     const struct amb_config *config,
                                                     struct amb_membudget *budget);
/* The window of one publisher, as amb_bufpool_set_window has it. */
void amb_shard_memory_set_window(struct amb_shard *shard, uint64_t window);
/* The pool of a group that has none here yet. Without memory for it: the private one, whose
 * messages leave by copy. */
struct amb_bufpool *amb_shard_pool_make(struct amb_shard *shard,
                                        const struct amb_trust_group *group);
static inline struct amb_bufpool *amb_shard_pool(struct amb_shard *shard,
                                                 const struct amb_trust_group *group)
{
    struct amb_bufpool *pool = shard->memory.by_group[group->id];
    return __builtin_expect(pool != NULL, 1) ? pool : amb_shard_pool_make(shard, group);
}
/* Once a turn in which has_fresh is set, behind all who wait for memory: amb_bufpool_served. */
void amb_shard_memory_served(struct amb_shard *shard);
/*
 * A process has lost the right to map the groups of the tenant with these bits. Messages in
 * their segments stay until readers are done with them. From here on they take nothing new, for
 * nobody can say which of them that process keeps. Returns the bits of groups that there was no
 * memory for: they are still to be retired.
 */
uint64_t amb_shard_memory_retire(struct amb_shard *shard, uint32_t tenant, uint64_t maps);
/* Gives back segments of retired pools in which nothing lies any more. Returns when it looks again,
 * by shard->now_ns; INT64_MAX: there are none. */
int64_t amb_shard_memory_tick(struct amb_shard *shard);
/* Bytes of their segments. */
uint64_t amb_shard_memory_retired(const struct amb_shard *shard);
/* Bytes in use: buffers, those in retired segments too, and lease segments. */
uint64_t amb_shard_memory_used(const struct amb_shard *shard);
/* Nothing has come for a while: all but a few segments that are free go. */
void amb_shard_memory_rest(struct amb_shard *shard);
/* All buffers are back. */
void amb_shard_memory_fini(struct amb_shard *shard);
