/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there may be: what the pools of all workers, their lease segments and limbo
 * share.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/base/apart.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_limbo;

/* Bytes of segments that all workers may have, and the ids of the next ones. Zero-initialised but
 * for max. The first fields do not change; `prepared` changes with every message of many KiB that
 * comes by a stream. */
struct amb_membudget {
    uint64_t max_leases; /* 0: no limit */
    uint64_t max;
    struct amb_limbo *limbo; /* dropped segments that are still mapped; NULL: there are none */
    char apart_before[AMB_APART];
    _Atomic uint64_t prepared; /* of buffers for messages still to come: at most half of max */
    char apart_behind[AMB_APART];
    _Atomic uint64_t used;
    _Atomic uint64_t leased;  /* of them, by lease segments: at most three quarters of max */
    _Atomic uint64_t leases;  /* so many of those; each is a descriptor */
    _Atomic uint64_t next_id; /* id of the segment made last */
    _Atomic uint64_t fence; /* segments that were there before its last change are not used again */
};

/* False: so much is not left. */
bool amb_membudget_take(struct amb_membudget *budget, uint64_t bytes);
void amb_membudget_give(struct amb_membudget *budget, uint64_t bytes);
/* The same for a lease segment. */
bool amb_membudget_take_lease(struct amb_membudget *budget, uint64_t bytes);
/* They are a lease's no more; amb_membudget_give is still to come. */
void amb_membudget_end_lease(struct amb_membudget *budget, uint64_t bytes);
/* A process has lost its rights: segments that are there now do not leave limbo to be used again.
 */
void amb_membudget_fence(struct amb_membudget *budget);
/* The id of a new segment. */
uint64_t amb_membudget_next_id(struct amb_membudget *budget);
