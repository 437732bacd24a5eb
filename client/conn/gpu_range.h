/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory as the broker speaks of it: a range of one of its pools, or why there is none.
 * Threads: plain data. Memory: none.
 */
#pragma once

#include "wire/mem/cuda.h"

#include <stdint.h>

#define AMB_GPU_NAME_BYTES 48u

/* A sentence of why GPU memory is not used in place. */
#define AMB_GPU_WHY_BYTES 128u

/* As the broker says it; device "": not said. */
struct amb_gpu_range {
    char device[AMB_GPU_NAME_BYTES];
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    uint64_t offset, pool;
    uint64_t epoch; /* of the broker's life that says it */
    uint32_t life;  /* of the session that it is said in, as this process counts them */
};
