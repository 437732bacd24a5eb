/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lease becomes a message, where it lies.
 * Threads: any, no lock held. Memory: takes the lease over.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_gpu_fence;
struct amb_lease;
struct amb_out;

/* As amb_lease_commit, in GPU memory, when the fence (NULL: none) is over, which it takes. */
enum amb_status amb_lease_commit_after(struct amb_lease *lease, const struct amb_out *message,
                                       struct amb_gpu_fence *fence, uint64_t *seq);
