/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu_buffer.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/memory/aside.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_private.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"

#include <stdlib.h>

#define CLASS_MIN_BITS 8u /* 256 B: what device pointers are aligned to */
#define CACHED_MAX (UINT64_C(256) << 20)
#define MADE_NS (2 * AMB_NS_PER_SEC)     /* one that was made aside waits so long */
#define REFUSED_NS (100 * AMB_NS_PER_MS) /* a full device is not tried again for so long */

static unsigned class_of(uint64_t len)
{
    unsigned class = 0;
    while (((uint64_t)1 << (class + CLASS_MIN_BITS)) < len) {
        class ++;
    }
    return class;
}

/* The device is entered. */
static void memory_free(const struct amb_gpu_buffer *buffer)
{
    if (buffer->mem == AMB_MEM_PINNED) {
        amb_cuda_unpin(buffer->cuda, (void *)(uintptr_t)buffer->address);
    } else {
        amb_cuda_free(buffer->cuda, buffer->address);
    }
}

/* A message may wait for the room. Where there is no thread to free on, the release itself wakes.
 */
static void wake(struct amb_conn *conn)
{
    atomic_fetch_add_explicit(&conn->gpu.frees, 1, memory_order_release);
    if (amb_later_is_here()) {
        amb_conn_lock(conn);
        amb_conn_wake_all(conn);
        amb_notify_signal(conn);
        amb_conn_unlock(conn);
    }
}

static void free_now(struct amb_later *job)
{
    struct amb_gpu_buffer *buffer = AMB_CONTAINER_OF(job, struct amb_gpu_buffer, later);
    struct amb_conn *conn = buffer->conn;
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(buffer->cuda, &scope) == AMB_OK) {
        memory_free(buffer);
        amb_cuda_leave(&scope);
    }
    free(buffer);
    wake(conn);
    amb_conn_unref(conn);
}

/* The device is entered. */
static enum amb_status memory_make(struct amb_gpu *gpu, enum amb_mem mem, uint64_t size,
                                   uint64_t *out)
{
    if (mem == AMB_MEM_PINNED) {
        void *memory;
        enum amb_status status = amb_cuda_pin(gpu->cuda, size, &memory);
        *out = status == AMB_OK ? (uintptr_t)memory : 0;
        return status;
    }
    return mem == AMB_MEM_CUDA ? amb_cuda_alloc(gpu->cuda, size, out)
                               : amb_cuda_alloc_managed(gpu->cuda, size, out);
}

static struct amb_gpu_buffer *allocate(struct amb_gpu *gpu, enum amb_mem mem, unsigned class)
{
    struct amb_cuda_scope scope;
    struct amb_gpu_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL || amb_cuda_enter(gpu->cuda, &scope) != AMB_OK) {
        free(buffer);
        return NULL;
    }
    buffer->class = class;
    buffer->mem = mem;
    buffer->cuda = gpu->cuda;
    enum amb_status status =
        memory_make(gpu, mem, (uint64_t)1 << (class + CLASS_MIN_BITS), &buffer->address);
    amb_cuda_leave(&scope);
    if (status != AMB_OK) {
        free(buffer);
        return NULL;
    }
    return buffer;
}

static struct amb_gpu_buffer **list_of(struct amb_gpu *gpu, enum amb_mem mem, unsigned class)
{
    return &gpu->buffers.unused[mem - AMB_MEM_PINNED][class];
}

static void free_later(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer)
{
    buffer->conn = gpu->conn;
    amb_conn_ref(buffer->conn);
    amb_later(&buffer->later, free_now);
}

/* Of one class. The device's lock is held. */
static struct amb_gpu_buffer *take_made(struct amb_gpu *gpu, unsigned class)
{
    struct amb_gpu_buffer *buffer = gpu->buffers.made[class];
    gpu->buffers.made[class] = NULL;
    gpu->buffers.has_made &= ~(UINT64_C(1) << class);
    return buffer;
}

/* Frees those that were made aside and not wanted; is_due: only if that is long ago. */
static void drop_made(struct amb_gpu *gpu, bool is_due)
{
    struct amb_gpu_buffer *dropped = NULL, *buffer;
    (void)pthread_mutex_lock(&gpu->lock);
    if (!is_due || amb_clock_monotonic_ns() - gpu->buffers.made_ns > MADE_NS) {
        while (gpu->buffers.has_made != 0) {
            buffer = take_made(gpu, (unsigned)__builtin_ctzll(gpu->buffers.has_made));
            buffer->next = dropped;
            dropped = buffer;
        }
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    while ((buffer = dropped) != NULL) {
        dropped = buffer->next;
        free_later(gpu, buffer);
    }
}

static struct amb_gpu_buffer *get_unused(struct amb_gpu *gpu, enum amb_mem mem, unsigned class)
{
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_buffer **list = list_of(gpu, mem, class), *buffer = *list;
    if (buffer != NULL) {
        *list = buffer->next;
        gpu->buffers.cached -= (uint64_t)1 << (class + CLASS_MIN_BITS);
    } else if (mem == AMB_MEM_CUDA) {
        buffer = take_made(gpu, class);
    }
    bool has_made = gpu->buffers.has_made != 0;
    (void)pthread_mutex_unlock(&gpu->lock);
    if (has_made) {
        drop_made(gpu, true);
    }
    return buffer;
}

struct amb_gpu_buffer *amb_gpu_buffer_get(struct amb_gpu *gpu, enum amb_mem mem, uint64_t len)
{
    amb_assert(mem >= AMB_MEM_PINNED && mem <= AMB_MEM_CUDA_MANAGED);
    unsigned class = class_of(len);
    if (class >= AMB_GPU_BUFFER_CLASSES) {
        return NULL;
    }
    struct amb_gpu_buffer *buffer = get_unused(gpu, mem, class);
    if (buffer == NULL && (buffer = allocate(gpu, mem, class)) == NULL) {
        drop_made(gpu, false); /* Room for the next try. */
    }
    return buffer;
}

/* The device's lock is held. */
static void keep(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer)
{
    struct amb_gpu_buffer **list = list_of(gpu, buffer->mem, buffer->class);
    gpu->buffers.cached += (uint64_t)1 << (buffer->class + CLASS_MIN_BITS);
    buffer->next = *list;
    *list = buffer;
}

struct making {
    struct amb_gpu *gpu;
    unsigned class;
};

/* The device's lock is held. False: it is one too many. */
static bool keep_made(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer)
{
    struct amb_gpu_buffers *all = &gpu->buffers;
    if (all->cached + ((uint64_t)1 << (buffer->class + CLASS_MIN_BITS)) <= CACHED_MAX) {
        keep(gpu, buffer);
        return true;
    }
    if (all->made[buffer->class] != NULL) {
        return false;
    }
    buffer->next = NULL;
    all->made[buffer->class] = buffer;
    all->has_made |= UINT64_C(1) << buffer->class;
    all->made_ns = amb_clock_monotonic_ns();
    return true;
}

/* The device's lock is held. */
static void refuse(struct amb_gpu *gpu, unsigned class, uint32_t frees)
{
    gpu->buffers.refused |= UINT64_C(1) << class;
    gpu->buffers.refused_ns = amb_clock_monotonic_ns();
    gpu->buffers.frees_then = frees;
}

/* Was the device full, and is nothing free since? The device's lock is held. */
static bool is_refused(struct amb_gpu *gpu, unsigned class)
{
    struct amb_gpu_buffers *all = &gpu->buffers;
    uint32_t frees = atomic_load_explicit(&gpu->conn->gpu.frees, memory_order_acquire);
    if (all->refused != 0 &&
        (frees != all->frees_then || amb_clock_monotonic_ns() - all->refused_ns >= REFUSED_NS)) {
        all->refused = 0;
    }
    return (all->refused & UINT64_C(1) << class) != 0;
}

/* On a thread of its own. */
static void make_aside(void *arg)
{
    struct making own = *(struct making *)arg;
    struct amb_gpu *gpu = own.gpu;
    free(arg);
    uint32_t frees = atomic_load_explicit(&gpu->conn->gpu.frees, memory_order_acquire);
    struct amb_gpu_buffer *buffer = allocate(gpu, AMB_MEM_CUDA, own.class);
    bool is_full = buffer == NULL;
    (void)pthread_mutex_lock(&gpu->lock);
    if (is_full) {
        refuse(gpu, own.class, frees);
    } else if (keep_made(gpu, buffer)) {
        buffer = NULL;
    }
    gpu->buffers.making &= ~(UINT64_C(1) << own.class);
    (void)pthread_mutex_unlock(&gpu->lock);
    if (is_full) {
        drop_made(gpu, false);
    } else if (buffer != NULL) {
        free_later(gpu, buffer);
    }
}

/* Begins to make one, unless one is being made, or the device is full. */
static void begin_making(struct amb_gpu *gpu, unsigned class)
{
    uint64_t bit = UINT64_C(1) << class;
    (void)pthread_mutex_lock(&gpu->lock);
    bool is_first = (gpu->buffers.making & bit) == 0 && !is_refused(gpu, class);
    gpu->buffers.making |= is_first ? bit : 0;
    (void)pthread_mutex_unlock(&gpu->lock);
    struct making *making = is_first ? malloc(sizeof(*making)) : NULL;
    if (making != NULL) {
        *making = (struct making){.gpu = gpu, .class = class};
    }
    if (is_first && (making == NULL || !amb_aside(gpu->conn, make_aside, making))) {
        free(making);
        (void)pthread_mutex_lock(&gpu->lock);
        refuse(gpu, class, atomic_load_explicit(&gpu->conn->gpu.frees, memory_order_relaxed));
        gpu->buffers.making &= ~bit;
        (void)pthread_mutex_unlock(&gpu->lock);
    }
}

struct amb_gpu_buffer *amb_gpu_buffer_take(struct amb_gpu *gpu, uint64_t len)
{
    unsigned class = class_of(len);
    struct amb_gpu_buffer *buffer =
        class < AMB_GPU_BUFFER_CLASSES ? get_unused(gpu, AMB_MEM_CUDA, class) : NULL;
    if (buffer == NULL && class < AMB_GPU_BUFFER_CLASSES) {
        begin_making(gpu, class);
    }
    return buffer;
}

void amb_gpu_buffer_put(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer)
{
    uint64_t size = (uint64_t)1 << (buffer->class + CLASS_MIN_BITS);
    (void)pthread_mutex_lock(&gpu->lock);
    bool is_kept = gpu->buffers.cached + size <= CACHED_MAX;
    if (is_kept) {
        keep(gpu, buffer);
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    if (!is_kept) {
        free_later(gpu, buffer);
    }
}

/* Of one list. */
static void free_list(struct amb_gpu_buffer **list, bool is_entered)
{
    struct amb_gpu_buffer *buffer;
    while ((buffer = *list) != NULL) {
        *list = buffer->next;
        if (is_entered) {
            memory_free(buffer);
        }
        free(buffer);
    }
}

void amb_gpu_buffers_fini(struct amb_gpu *gpu, bool is_entered)
{
    for (unsigned i = 0; i < AMB_GPU_BUFFER_KINDS * AMB_GPU_BUFFER_CLASSES; i++) {
        free_list(&gpu->buffers.unused[i / AMB_GPU_BUFFER_CLASSES][i % AMB_GPU_BUFFER_CLASSES],
                  is_entered);
    }
    for (unsigned i = 0; i < AMB_GPU_BUFFER_CLASSES; i++) {
        free_list(&gpu->buffers.made[i], is_entered);
    }
}
