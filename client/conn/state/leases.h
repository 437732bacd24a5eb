/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease segments of a connection, and its commits. memory/slots.c, memory/slots_life.c and
 * publish/lease.c work on it.
 * Threads: under the connection's lock. Memory: its own.
 */
#pragma once

#include "client/conn/buffer.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SLOT_NONE UINT32_MAX

struct amb_keep;
struct amb_lease;
struct amb_slots; /* one segment */

/* A place for one payload. */
struct amb_place {
    struct amb_slots *slots;
    uint32_t slot;
};

struct amb_commits_entry {
    struct amb_slots *slots; /* NULL: free already */
    uint32_t head;           /* chain of its slots */
};

/* The driver would not pin memory. */
struct amb_unpinned {
    int64_t at_ns; /* 0: never */
    enum amb_status why;
};

struct amb_leases {
    struct amb_list_node segments;         /* in host memory */
    struct amb_list_node gpu_segments;     /* in that of GPUs; each knows its device */
    struct amb_list_node pinned_segments;  /* in host memory that a GPU's copy engine reaches */
    struct amb_list_node private_segments; /* the same, memory of ours: a commit there is
                                            * transferred */
    uint64_t bytes_max;                    /* that the broker gives; 0: none */
    uint64_t bytes;                        /* of all segments, those being opened too */
    bool has_work;                         /* amb_slots_turn has something to do */
    int64_t look_ns;                       /* when idle ones were looked for last */
    int64_t refused_ns;              /* when the broker refused one, or mapping failed; 0: never */
    uint64_t private_bytes;          /* of private_segments, those being unpinned too */
    uint64_t unpinning_bytes;        /* of the latter */
    uint32_t unpins;                 /* of these that are done */
    bool has_ended;                  /* the connection's memory goes: nothing is counted */
    struct amb_unpinned unpinned[2]; /* [1]: private ones */
    uint64_t said, freed;            /* commits */
    struct amb_commits_entry *commits; /* of freed + 1 ..., commit n at n & mask */
    uint64_t mask;
    uint64_t depth; /* bytes of slots for messages of a size that plain publishes let be in use, see
                       slots.c */
    uint32_t waits; /* calls that wait for room */
    struct amb_buffers buffers;    /* memory of leases where there is no segment */
    struct amb_lease *unused;      /* publish/lease.c uses them again */
    struct amb_keep *unused_keeps; /* memory/keep.c, too */
};
