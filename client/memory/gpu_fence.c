/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu_fence.h"

#include "client/memory/gpu.h"
#include "client/memory/gpu_private.h"

#include <stdlib.h>

static void fence_put(struct amb_gpu_fence *fence)
{
    struct amb_gpu *gpu = fence->gpu;
    (void)pthread_mutex_lock(&gpu->lock);
    fence->next = gpu->fences;
    gpu->fences = fence;
    (void)pthread_mutex_unlock(&gpu->lock);
}

/* The device is entered. */
static struct amb_gpu_fence *fence_get(struct amb_gpu *gpu)
{
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_fence *fence = gpu->fences;
    if (fence != NULL) {
        gpu->fences = fence->next;
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    if (fence == NULL) {
        fence = calloc(1, sizeof(*fence));
        if (fence != NULL && amb_cuda_event_create(gpu->cuda, &fence->event) != AMB_OK) {
            free(fence);
            return NULL;
        }
    }
    if (fence != NULL) {
        fence->gpu = gpu;
        fence->next = NULL;
    }
    return fence;
}

/* The device is entered. */
static enum amb_status fence_record(struct amb_gpu *gpu, void *stream, struct amb_gpu_fence **out)
{
    struct amb_gpu_fence *fence = fence_get(gpu);
    if (fence == NULL) {
        return amb_gpu_is_sound(gpu) ? AMB_ENOMEM : AMB_ECUDA;
    }
    enum amb_status status = amb_cuda_event_record(gpu->cuda, fence->event, stream);
    if (status != AMB_OK) {
        fence_put(fence);
        return status;
    }
    *out = fence;
    return AMB_OK;
}

enum amb_status amb_gpu_fence(struct amb_gpu *gpu, void *stream, struct amb_gpu_fence **out)
{
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_gpu_fence *fence = NULL;
    status = fence_record(gpu, stream, &fence);
    if (status == AMB_OK) {
        status = amb_gpu_fence_look(fence);
        *out = status == AMB_EAGAIN ? fence : NULL;
        status = status == AMB_EAGAIN ? AMB_OK : status;
    }
    if (status != AMB_OK) {
        (void)!amb_cuda_stream_sync(gpu->cuda, stream); /* It writes until then. */
    }
    amb_cuda_leave(&scope);
    return status;
}

enum amb_status amb_gpu_fence_look(struct amb_gpu_fence *fence)
{
    enum amb_status status = amb_cuda_event_query(fence->gpu->cuda, fence->event);
    if (status != AMB_EAGAIN) {
        fence_put(fence);
    }
    return status;
}

enum amb_status amb_gpu_fence_wait(struct amb_gpu_fence *fence)
{
    enum amb_status status = amb_cuda_event_sync(fence->gpu->cuda, fence->event);
    fence_put(fence);
    return status;
}

enum amb_status amb_gpu_copy(struct amb_gpu *gpu, uint64_t to, uint64_t from, uint64_t len,
                             void *stream, bool is_waited, struct amb_gpu_fence **fence)
{
    struct amb_cuda_scope scope;
    struct amb_gpu_fence *own = NULL;
    *fence = NULL;
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status == AMB_OK) {
        status = amb_cuda_copy(gpu->cuda, to, from, len, stream);
        if (status == AMB_OK) {
            status = fence_record(gpu, stream, &own);
            if (status != AMB_OK) {
                (void)!amb_cuda_stream_sync(gpu->cuda, stream); /* It writes until then. */
            }
        }
        amb_cuda_leave(&scope);
    }
    if (status == AMB_OK) {
        status = is_waited ? amb_gpu_fence_wait(own) : amb_gpu_fence_look(own);
        *fence = status == AMB_EAGAIN ? own : NULL;
        status = status == AMB_EAGAIN ? AMB_OK : status;
    }
    return status == AMB_OK ? AMB_OK
                            : amb_gpu_fail(gpu->conn, gpu, status, "cannot copy what to publish");
}

void amb_gpu_fences_fini(struct amb_gpu *gpu, bool is_entered)
{
    struct amb_gpu_fence *fence;
    while ((fence = gpu->fences) != NULL) {
        gpu->fences = fence->next;
        if (is_entered) {
            amb_cuda_event_destroy(gpu->cuda, fence->event);
        }
        free(fence);
    }
}
