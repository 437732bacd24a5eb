/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of a shard: two pools, whose segments come and go by shard_segments.h.
 *
 * Threads: the starting thread, before the worker begins and after it has ended; the window, the
 * worker. Memory: the pools' segments.
 */
#pragma once

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
/* All buffers are back. */
void amb_shard_memory_fini(struct amb_shard *shard);
