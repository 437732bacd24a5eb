/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a publisher's messages: its leases, and the way of its topic with GPU memory.
 * publish/lease.c and publish/staged.c work on it.
 *
 * Threads: under the connection's lock. Atomic fields, and those that stay as they are, are read
 * without it. Memory: none.
 */
#pragma once

#include "client/conn/gpu_range.h"
#include "wire/base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_gpu;

struct amb_pub_lease {
    struct amb_list_node out; /* leases that the program has; struct amb_lease.node */
    uint32_t count;           /* ... so many */
    uint64_t messages;        /* that left in slots */
    uint32_t group;           /* of slots for its topic; AMB_GROUP_UNKNOWN: not said yet */
    struct amb_gpu *gpu;      /* leases are in its memory; NULL: in host memory */
    bool is_pinned;           /* no: host memory that its driver has pinned */
};

struct amb_pub_gpu {
    bool has_room;                 /* the broker takes commits in GPU memory for this topic */
    bool rejects_staging;          /* a message that cannot stay on its GPU is not published */
    char why[AMB_GPU_WHY_BYTES];   /* without has_room: the reason */
    _Atomic uint64_t staged_bytes; /* read from devices */
};

static inline void amb_pub_lease_init(struct amb_pub_lease *lease)
{
    amb_list_init(&lease->out);
}
