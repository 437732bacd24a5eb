/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits: messages whose payloads lie where they shall be read. A commit never waits. It gathers
 * with those before it by the rule of small messages. While the batch before it finds no window, it
 * stands in the publisher's queue.
 *
 * Threads: any, no lock held. Memory: takes over slots and private memory.
 */
#pragma once

#include "client/batch/pub.h"
#include "client/publish/put.h"

struct amb_gpu_fence;
struct amb_lease;

/* A plain message, copied into a slot. EAGAIN: no slot is free; a first segment is asked for.
 * may_wait: a moment, for one that is warm. */
enum amb_status amb_put_slot(struct amb_pub *pub, const struct amb_put *put, bool may_wait,
                             uint64_t *seq);
/* put->len bytes that are in a slot already. Takes the place, also on failure. ENOMEM. */
enum amb_status amb_commit_place(struct amb_pub *pub, const struct amb_put *put,
                                 const struct amb_place *place, uint64_t *seq);
/* The same of GPU memory: it leaves when the fence, which may be NULL, is over. Takes that too. */
enum amb_status amb_commit_place_gpu(struct amb_pub *pub, const struct amb_put *put,
                                     const struct amb_place *place, struct amb_gpu_fence *fence,
                                     uint64_t *seq);
/* The same of pinned host memory. */
enum amb_status amb_commit_place_pinned(struct amb_pub *pub, const struct amb_put *put,
                                        const struct amb_place *place, struct amb_gpu_fence *fence,
                                        uint64_t *seq);
/* put->len bytes of a lease in private memory. Takes the memory, also on failure. ENOMEM. */
enum amb_status amb_commit_private(struct amb_pub *pub, const struct amb_put *put,
                                   const struct amb_lease *own, uint64_t *seq);
