/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways that a client or a topic may demand for payloads: ?expect=rdma in a URL, topics.expect
 * in a configuration. A way that cannot be had is refused with its reason, and nothing slower is
 * taken in its place.
 *
 *   ring        shared memory carries the frames
 *   zero-copy   payloads in host memory are read, and may be written, where they lie
 *   rdma        a ucx link with a lane of InfiniBand or RoCE
 *   nvlink      payloads in GPU memory stay on GPUs
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum amb_expect {
    AMB_EXPECT_RING = 1,
    AMB_EXPECT_ZERO_COPY = 2,
    AMB_EXPECT_RDMA = 4,
    AMB_EXPECT_NVLINK = 8,
};

#define AMB_EXPECT_ALL 15u
#define AMB_EXPECT_WORDS "ring, zero-copy, rdma or nvlink"

/* The demand of that name; 0: there is none. */
uint32_t amb_expect_find(const char *name, size_t len);
/* The name of the lowest of these demands; "": there is none. */
const char *amb_expect_name(uint32_t expect);
/* The lowest of them alone. */
static inline uint32_t amb_expect_first(uint32_t expect)
{
    return expect & (~expect + 1);
}
/* Does a list of lanes, as "rc_mlx5/mlx5_0:1 tcp/eth0", have one of RDMA? */
bool amb_expect_is_rdma(const char *lanes);
/* Has it one by which GPUs reach each other? */
bool amb_expect_is_nvlink(const char *lanes);
