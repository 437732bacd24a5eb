/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu_fence.h"

#include "client/memory/gpu.h"
#include "client/memory/gpu_private.h"

#include <sched.h>
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

/* The device is entered. is_here: the stream is of its context, and captures nothing; else ESTATE
 * and ENOTSUP as of amb_cuda_event_follow. */
static enum amb_status fence_try(struct amb_gpu *gpu, void *stream, bool is_here,
                                 struct amb_gpu_fence **out)
{
    struct amb_gpu_fence *fence = fence_get(gpu);
    if (fence == NULL) {
        return amb_gpu_is_sound(gpu) ? AMB_ENOMEM : AMB_ECUDA;
    }
    enum amb_status status = is_here ? amb_cuda_event_record(gpu->cuda, fence->event, stream)
                                     : amb_cuda_event_follow(gpu->cuda, fence->event, stream);
    if (status != AMB_OK) {
        fence_put(fence);
        return status;
    }
    fence->stream = stream;
    *out = fence;
    return AMB_OK;
}

/* Its stream began to capture while it was recorded. Behind the end of that capture it is recorded
 * once more. */
static void fence_again(struct amb_gpu_fence *fence)
{
    struct amb_cuda *cuda = fence->gpu->cuda;
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(cuda, &scope) == AMB_OK) {
        (void)!amb_cuda_event_follow(cuda, fence->event, fence->stream);
        amb_cuda_leave(&scope);
    }
}

/* A fence behind what is on the stream. Where there can be none, the stream has run when this
 * returns, and *out is NULL; but for ESTATE: it captures by now. */
static enum amb_status fence_behind(struct amb_gpu *gpu, void *stream, bool is_here,
                                    struct amb_gpu_fence **out)
{
    enum amb_status status = fence_try(gpu, stream, is_here, out);
    if (status == AMB_OK || status == AMB_ESTATE) {
        return status;
    }
    enum amb_status run = amb_cuda_program_sync(stream);
    /* Of another context's stream nothing more is to be known. */
    return run == AMB_ESTATE || status == AMB_ENOTSUP ? run : status;
}

/* *fence is NULL afterwards if its work is over. */
static enum amb_status fence_drop_if_over(struct amb_gpu_fence **fence)
{
    struct amb_gpu_fence *own = *fence;
    enum amb_status status = own != NULL ? amb_gpu_fence_look(own) : AMB_OK;
    *fence = status == AMB_EAGAIN ? own : NULL;
    return status == AMB_EAGAIN ? AMB_OK : status;
}

enum amb_status amb_gpu_fence(struct amb_gpu *gpu, void *stream, struct amb_gpu_fence **out)
{
    struct amb_cuda_scope scope;
    enum amb_status status = AMB_OK;
    *out = NULL;
    status = amb_cuda_enter_to_wait(gpu->cuda, &scope);
    if (status != AMB_OK) {
        return status;
    }
    status = fence_behind(gpu, stream, false, out);
    status = status == AMB_OK ? fence_drop_if_over(out) : status;
    amb_cuda_leave(&scope);
    return status;
}

enum amb_status amb_gpu_fence_look(struct amb_gpu_fence *fence)
{
    enum amb_status status = amb_cuda_event_query(fence->gpu->cuda, fence->event);
    if (status == AMB_ESTATE) {
        fence_again(fence);
        return AMB_EAGAIN;
    }
    if (status != AMB_EAGAIN) {
        fence_put(fence);
    }
    return status;
}

bool amb_gpu_fences_are_over(struct amb_gpu_fence **fences, bool *has_failed)
{
    struct amb_gpu_fence *fence;
    if (*fences == NULL) {
        return true; /* There may be no driver. */
    }
    amb_cuda_row_begin();
    while ((fence = *fences) != NULL) {
        struct amb_gpu_fence *next = fence->next;
        enum amb_status status = amb_gpu_fence_look(fence);
        if (status == AMB_EAGAIN) {
            break;
        }
        *fences = next;
        *has_failed = *has_failed || status != AMB_OK;
    }
    amb_cuda_row_end();
    return *fences == NULL;
}

enum amb_status amb_gpu_fence_wait(struct amb_gpu_fence *fence)
{
    struct amb_cuda_scope scope;
    enum amb_status status;
    for (;;) {
        status = amb_cuda_enter_to_wait(fence->gpu->cuda, &scope);
        if (status == AMB_OK) {
            status = amb_cuda_event_sync(fence->gpu->cuda, fence->event);
            amb_cuda_leave(&scope);
        } else if (status == AMB_ESTATE) { /* It cannot be waited for here, but asked for. */
            status = amb_cuda_event_query(fence->gpu->cuda, fence->event);
        }
        if (status != AMB_ESTATE && status != AMB_EAGAIN) {
            break;
        }
        if (status == AMB_ESTATE) {
            fence_again(fence);
        }
        (void)sched_yield();
    }
    fence_put(fence);
    return status;
}

/* The device is entered. */
static enum amb_status copy_behind(struct amb_gpu *gpu, uint64_t to, uint64_t from, uint64_t len,
                                   void *stream, bool is_waited, struct amb_gpu_fence **fence)
{
    enum amb_status status = AMB_OK;
    switch (amb_cuda_stream_classify(gpu->cuda, stream)) {
    case AMB_CUDA_STREAM_CAPTURING:
        return AMB_ESTATE;
    case AMB_CUDA_STREAM_ELSEWHERE:
        status = amb_cuda_program_sync(stream);
        return status == AMB_OK ? amb_gpu_fetch(gpu, to, gpu, from, len) : status;
    case AMB_CUDA_STREAM_HERE:
        break;
    }
    status = amb_cuda_copy(gpu->cuda, to, from, len, stream);
    if (status == AMB_OK) {
        /* It writes until then, so a capture of another thread that came between is waited for. */
        while ((status = fence_behind(gpu, stream, true, fence)) == AMB_ESTATE) {
            (void)sched_yield();
        }
    }
    if (status == AMB_OK && is_waited && *fence != NULL) {
        status = amb_gpu_fence_wait(*fence);
        *fence = NULL;
    }
    return status; /* It has just begun: nobody asks yet whether it is over. */
}

enum amb_status amb_gpu_copy(struct amb_gpu *gpu, uint64_t to, uint64_t from, uint64_t len,
                             void *stream, bool is_waited, struct amb_gpu_fence **fence)
{
    struct amb_cuda_scope scope;
    *fence = NULL;
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status == AMB_OK) {
        status = copy_behind(gpu, to, from, len, stream, is_waited, fence);
        amb_cuda_leave(&scope);
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
