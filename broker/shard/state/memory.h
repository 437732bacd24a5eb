/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a shard: pools of its objects, its buffers, and the threads that make them.
 *
 * Threads: the shard's worker. Memory: embedded in the shard; pools and segments are the heap's and
 * the kernel's.
 */
#pragma once

#include "broker/base/trust_group.h"
#include "broker/memory/bufpool.h"
#include "wire/base/list.h"
#include "wire/base/pool.h"

#include <stddef.h>
#include <stdint.h>

#define AMB_SHARD_POOL_CHUNK 256u /* objects */

struct amb_gpus;
struct amb_maker;
struct amb_porter;

/* entry.c */
struct amb_shard_entries {
    struct amb_pool pool;
    size_t max;                    /* beyond it a batch comes in only if one is reserved for it */
    size_t reserved;               /* for batches that open windows let come: publisher_entries.c */
    size_t sessions;               /* that some of these are reserved for */
    struct amb_list_node holders;  /* struct amb_publisher_entries.node: the same publishers */
    struct amb_list_node given_up; /* struct amb_entry.pending: amb_entries_end */
};

/* tally.c */
struct amb_shard_tallies {
    struct amb_pool pool;
};

/* shard_memory.c */
struct amb_shard_memory {
    struct amb_bufpool bufpool;      /* of the main trust group */
    struct amb_bufpool private_pool; /* of what is for its readers alone: replies, requests */
    /* By the ids of their groups; NULL: nothing of that group was here yet. */
    struct amb_bufpool *by_group[AMB_TRUST_GROUPS_MAX + 1];
    struct amb_bufpool *pools[AMB_TRUST_GROUPS_MAX + 1]; /* those that are there */
    uint32_t pool_count;
    bool has_fresh;               /* one of them has a segment that waits for amb_bufpool_served */
    struct amb_list_node retired; /* struct amb_retired_pool.node of shard_memory.c */
    int64_t retired_due_ns;       /* they are looked at then; INT64_MAX: there are none */
    uint64_t window;              /* of one publisher: amb_bufpool_set_window */
    uint64_t heap_bufs;      /* bytes of buffers of entries that no pool had room for: payload.c */
    struct amb_maker *maker; /* of segments; NULL: they are made by the worker itself */
    struct amb_porter *porter; /* the same of rings */
    struct amb_gpus *gpus;     /* NULL: none */
};
