/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How near a subscription is to payloads: what it costs to bring one there. Groups of topics with
 * prefer = "near" choose by it.
 *
 * Threads: the subscription's worker. Memory: none.
 */
#pragma once

#include <stdint.h>

struct amb_subscription;

/* After that a member that could not read a payload of a GPU in place counts as near to it again.
 */
#define AMB_NEARNESS_AGAIN_NS INT64_C(1000000000)

/* The further down, the nearer. */
enum amb_nearness {
    AMB_NEARNESS_REMOTE, /* by TCP or UCX, also where the other end is on this host */
    AMB_NEARNESS_HOST,   /* by a ring, or a stream on a Unix socket */
    AMB_NEARNESS_GPU,    /* ... and it reads payloads that lie on a GPU in place */
};

/* For as long as it is there: neither its session's door nor its link change, nor does its wish for
 * GPU memory. */
enum amb_nearness amb_nearness_of(const struct amb_subscription *subscription);
/* A pool of GPU memory in a word of bits. Those of a machine with more than 64 share some. */
static inline uint64_t amb_nearness_gpu_bit(uint32_t pool)
{
    return UINT64_C(1) << (pool & 63);
}
/* "remote", "host", "gpu". */
const char *amb_nearness_name(enum amb_nearness nearness);
