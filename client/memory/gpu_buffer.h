/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that payloads are brought to: device memory, managed memory, or pinned host memory, in
 * power-of-two classes from 256 bytes on. Unused memory is bounded. Beyond the bound it is freed,
 * which waits for the device and is put off (later.h).
 *
 * Threads: any; the device's lock, a leaf. Memory: the driver's, used again, freed with the device.
 */
#pragma once

#include "client/memory/later.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_GPU_BUFFER_CLASSES 33u /* to 1 TiB */
#define AMB_GPU_BUFFER_KINDS 3u    /* PINNED, CUDA, CUDA_MANAGED */

struct amb_conn;
struct amb_cuda;
struct amb_gpu;

struct amb_gpu_buffer {
    struct amb_gpu_buffer *next;
    uint64_t address;
    unsigned class;
    enum amb_mem mem;
    struct amb_cuda *cuda;
    struct amb_later later; /* until it is freed, with a reference to conn */
    struct amb_conn *conn;
};

/* Those of a device. */
struct amb_gpu_buffers {
    struct amb_gpu_buffer *unused[AMB_GPU_BUFFER_KINDS][AMB_GPU_BUFFER_CLASSES];
    struct amb_gpu_buffer *made[AMB_GPU_BUFFER_CLASSES]; /* beyond the bound, one of a class */
    uint64_t cached;                                     /* bytes of unused */
    uint64_t making;     /* bit N: amb_gpu_buffer_take has one of class N made */
    uint64_t has_made;   /* bit N: in made */
    int64_t made_ns;     /* when the newest of these came */
    uint64_t refused;    /* bit N: there was none to be had of class N, */
    int64_t refused_ns;  /* ... at this time, */
    uint32_t frees_then; /* ... after so many frees of conn->gpu.frees */
};

/* A buffer of at least len bytes, aligned to 256, of a kind: CUDA, CUDA_MANAGED, PINNED. No lock is
 * held: where a driver allocates, it may wait for the device. NULL: there is none now. A free that
 * is put off counts in conn->gpu.frees, and wakes the connection's threads. */
struct amb_gpu_buffer *amb_gpu_buffer_get(struct amb_gpu *gpu, enum amb_mem mem, uint64_t len);
/* One of device memory that is there; any lock may be held. NULL: there is none, but soon, for it
 * is being made aside. A device that was full is tried again after a free, or after 100 ms. One
 * beyond the bound is kept for seconds at most, in case nobody comes for it. */
struct amb_gpu_buffer *amb_gpu_buffer_take(struct amb_gpu *gpu, uint64_t len);
/* Waits for nothing. */
void amb_gpu_buffer_put(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer);
/* Frees the unused ones. is_entered: the device's driver answers. */
void amb_gpu_buffers_fini(struct amb_gpu *gpu, bool is_entered);
