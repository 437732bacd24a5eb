/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a device: gpu.c makes it, gpu_buffer.c, gpu_fence.c and gpu_release.c each work on
 * a part of it.
 * Threads: as each field says. Memory: freed with the connection's.
 */
#pragma once

#include "client/memory/gpu.h"
#include "client/memory/gpu_buffer.h"
#include "client/memory/gpu_fence.h"
#include "client/memory/gpu_release.h"
#include "wire/mem/stage.h"

#include <pthread.h>

struct amb_gpu {
    struct amb_gpu *next;
    struct amb_conn *conn;
    struct amb_cuda *cuda;
    struct amb_stage *stage; /* has a lock of its own */
    pthread_mutex_t lock;    /* of the next three */
    struct amb_gpu_buffers buffers;
    struct amb_gpu_releases releases;
    struct amb_gpu_fence *fences; /* unused ones */
    pthread_mutex_t copy_lock;    /* of the stream */
    void *stream;                 /* for copies between devices; made at the first */
    struct amb_gpu_room room;     /* under the connection's lock */
    struct amb_later later;       /* when the connection has gone */
};
