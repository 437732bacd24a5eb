/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of segment_lease.c and gpuslot.c in a shard.
 *
 * Threads: the shard's worker. Memory: embedded in the shard.
 */
#pragma once

#include "wire/base/list.h"

#include <stdint.h>

struct amb_shard_leases {
    struct amb_list_node all; /* struct amb_segment_lease.of_shard */
    uint64_t bytes;           /* of their segments in host memory */
};

static inline void amb_shard_leases_init(struct amb_shard_leases *leases)
{
    amb_list_init(&leases->all);
}

struct amb_shard_gpuslots {
    struct amb_list_node leases; /* struct amb_segment_lease.of_book: the shard's own */
    int64_t due_ns;              /* the list is not looked at before */
};

static inline void amb_shard_gpuslots_init(struct amb_shard_gpuslots *gpuslots)
{
    amb_list_init(&gpuslots->leases);
}
