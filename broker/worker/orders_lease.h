/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about leases. Their pages are the maker's work, some at a time. An order goes to the maker
 * and waits there in turn with others. It comes back when all of its pages are there.
 *
 * Threads: the order's worker, and the maker.
 */
#pragma once

#include "broker/memory/maker.h"
#include "broker/shard/segment_lease.h"
#include "broker/worker/orders.h"

#include <stdint.h>

struct amb_gpu_pool;
struct amb_trust_group;

struct amb_order_lease {
    struct amb_order order;
    uint64_t segment;                    /* out when opening */
    uint64_t slot;                       /* opening: bytes of a slot */
    uint32_t slots;                      /* opening */
    uint32_t node;                       /* opening: 1 + that of its pages; 0: any */
    struct amb_gpu_pool *pool;           /* opening; NULL: host memory, */
    const struct amb_trust_group *group; /* ... of that group; NULL: the main one */
    uint64_t gpu_offset;                 /* out, of that */
    uint64_t size;                       /* out */
    int fd;                              /* out: writable; the asker closes it */
    struct amb_maker_wait wait;          /* for memory that is about to come back, */
    int64_t asked_ns;                    /* ... since */
    struct amb_segment_lease_pass pass;  /* opening, or mapped: of pages */
    const char *why;                     /* out: what status means, a static text */
};
/* Open and mapped go on for some turns, as they allocate pages. */
extern const struct amb_order_kind amb_order_lease_open;
extern const struct amb_order_kind amb_order_lease_mapped;
extern const struct amb_order_kind amb_order_lease_close;
