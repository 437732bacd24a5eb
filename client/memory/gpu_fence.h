/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fences: the end of the work that is on a stream of the program so far, and copies behind it. A
 * commit of GPU memory leaves when its fence is over.
 *
 * Threads: any; locks: gpu.h. Memory: fences are used again, and freed with the device.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_gpu;

struct amb_gpu_fence {
    struct amb_gpu_fence *next; /* its user's */
    struct amb_gpu *gpu;
    void *event, *stream;
};

/* *out: the fence of the work on the stream so far; NULL: there is nothing to wait for. Blocks
 * where the stream is another context's, or no event can be had. ESTATE: the stream captures a
 * graph, and nothing was waited for. After any other error the work has run, or the device is
 * fenced. */
AMB_MUST_CHECK enum amb_status amb_gpu_fence(struct amb_gpu *gpu, void *stream,
                                             struct amb_gpu_fence **out);
/* AMB_OK, or ECUDA: it is over, and the fence is given back. EAGAIN: not yet. */
enum amb_status amb_gpu_fence_look(struct amb_gpu_fence *fence);
/* Asks for each of a list, up to the first that is not over; takes the others out. *has_failed: is
 * set if one has. */
AMB_MUST_CHECK bool amb_gpu_fences_are_over(struct amb_gpu_fence **fences, bool *has_failed);
/* Waits for it, and gives it back. */
enum amb_status amb_gpu_fence_wait(struct amb_gpu_fence *fence);
/* Device memory to device memory of the same GPU, behind what is on the stream. is_waited: it is
 * done when this returns. Else it is done when *fence, which may be NULL, is over. A failure is the
 * connection's last error. */
AMB_MUST_CHECK enum amb_status amb_gpu_copy(struct amb_gpu *gpu, uint64_t to, uint64_t from,
                                            uint64_t len, void *stream, bool is_waited,
                                            struct amb_gpu_fence **fence);
/* Frees the unused ones. is_entered: the device's driver answers. */
void amb_gpu_fences_fini(struct amb_gpu *gpu, bool is_entered);
