/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/gpu_range.h"
#include "wire/base/assert.h"
#include "wire/mem/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_MIN_BITS 8u /* 256 B: what device pointers are aligned to */
#define CLASSES 33u       /* to 1 TiB */
#define KINDS 3u          /* PINNED, CUDA, CUDA_MANAGED */
#define CACHED_MAX (UINT64_C(256) << 20)

/* A message whose release waits for a stream. */
struct waiting {
    struct waiting *next;
    void *event;
    struct amb_msg *msg; /* NULL: unused */
    amb_gpu_release_fn release;
};

struct amb_gpu {
    struct amb_gpu *next;
    struct amb_conn *conn;
    struct amb_cuda *cuda;
    struct amb_stage *stage;
    pthread_mutex_t lock; /* of what follows */
    struct amb_gpu_buffer *free_list[KINDS][CLASSES];
    uint64_t cached;
    struct waiting *waiting, *unused;
    struct amb_gpu_fence *fences; /* unused */
    pthread_mutex_t copy_lock;    /* of the stream */
    void *stream;                 /* for copies within devices; made at the first */
    struct amb_gpu_room room;     /* under the connection's lock */
};

/* ---- devices ---- */

enum amb_status amb_gpu_fail(struct amb_conn *conn, struct amb_gpu *gpu, enum amb_status status,
                             const char *what)
{
    char text[200];
    amb_cuda_failure(gpu->cuda, text, sizeof(text));
    return amb_conn_fail(conn, status, "%s on GPU %d: %s", what, amb_cuda_info(gpu->cuda)->index,
                         text);
}

struct amb_cuda *amb_gpu_cuda(struct amb_gpu *gpu)
{
    return gpu->cuda;
}

int amb_gpu_index(const struct amb_gpu *gpu)
{
    return amb_cuda_info(gpu->cuda)->index;
}

struct amb_gpu_room *amb_gpu_room_of(struct amb_gpu *gpu)
{
    return &gpu->room;
}

void amb_gpus_renew(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    for (struct amb_gpu *gpu = conn->gpu.devices; gpu != NULL; gpu = gpu->next) {
        gpu->room = (struct amb_gpu_room){.bytes = gpu->room.bytes};
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
}

void amb_gpus_count_in(struct amb_conn *conn, uint64_t bytes, const char *why)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    conn->gpu.staged_in += bytes;
    if (strcmp(conn->gpu.staged_why, why) != 0) {
        (void)snprintf(conn->gpu.staged_why, sizeof(conn->gpu.staged_why), "%s", why);
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
}

void amb_gpus_staged(struct amb_conn *conn, uint64_t *in, uint64_t *out,
                     char why[AMB_GPU_WHY_BYTES])
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    *in = conn->gpu.staged_in;
    memcpy(why, conn->gpu.staged_why, AMB_GPU_WHY_BYTES);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    *out = atomic_load_explicit(&conn->gpu.staged_out, memory_order_relaxed);
}

bool amb_gpu_is_sound(const struct amb_gpu *gpu)
{
    return amb_cuda_is_sound(gpu->cuda);
}

static enum amb_status missing(struct amb_conn *conn, int device, enum amb_status status)
{
    if (status == AMB_ENOTSUP) {
        return amb_conn_fail(conn, status, "GPU memory: %s", amb_cuda_why_not());
    }
    if (status == AMB_ENOTFOUND) {
        return amb_conn_fail(conn, status, "there is no GPU %d: the driver shows %u", device,
                             amb_cuda_count());
    }
    return amb_conn_fail(conn, status, "GPU %d cannot be used: %s", device,
                         amb_status_text(status));
}

static enum amb_status create(struct amb_conn *conn, int device, struct amb_gpu **out)
{
    struct amb_gpu *gpu = calloc(1, sizeof(*gpu));
    if (gpu == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_cuda_at(device, &gpu->cuda);
    if (status == AMB_OK) {
        status = amb_stage_create(gpu->cuda, 0, &gpu->stage);
    }
    if (status != AMB_OK) {
        free(gpu);
        return status;
    }
    gpu->conn = conn;
    (void)pthread_mutex_init(&gpu->lock, NULL);
    (void)pthread_mutex_init(&gpu->copy_lock, NULL);
    *out = gpu;
    return AMB_OK;
}

static struct amb_gpu *find(struct amb_conn *conn, int device)
{
    struct amb_gpu *gpu = conn->gpu.devices;
    while (gpu != NULL && amb_cuda_info(gpu->cuda)->index != device) {
        gpu = gpu->next;
    }
    return gpu;
}

enum amb_status amb_gpu_get(struct amb_conn *conn, int device, struct amb_gpu **out)
{
    enum amb_status status = AMB_OK;
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_gpu *gpu = find(conn, device);
    if (gpu == NULL) {
        status = create(conn, device, &gpu);
        if (status == AMB_OK) {
            gpu->next = conn->gpu.devices;
            conn->gpu.devices = gpu;
        }
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (status != AMB_OK) {
        return missing(conn, device, status);
    }
    *out = gpu;
    return AMB_OK;
}

/* The device is entered. */
static void memory_free(struct amb_gpu *gpu, const struct amb_gpu_buffer *buffer)
{
    if (buffer->mem == AMB_MEM_PINNED) {
        amb_cuda_unpin(gpu->cuda, (void *)(uintptr_t)buffer->address);
    } else {
        amb_cuda_free(gpu->cuda, buffer->address);
    }
}

static void destroy(struct amb_gpu *gpu)
{
    struct amb_cuda_scope scope;
    amb_assert(gpu->waiting == NULL);
    bool is_entered = amb_cuda_enter(gpu->cuda, &scope) == AMB_OK;
    for (unsigned i = 0; i < KINDS * CLASSES; i++) {
        struct amb_gpu_buffer **list = &gpu->free_list[i / CLASSES][i % CLASSES], *buffer;
        while ((buffer = *list) != NULL) {
            *list = buffer->next;
            if (is_entered) {
                memory_free(gpu, buffer);
            }
            free(buffer);
        }
    }
    struct waiting *waiting;
    while ((waiting = gpu->unused) != NULL) {
        gpu->unused = waiting->next;
        if (is_entered) {
            amb_cuda_event_destroy(gpu->cuda, waiting->event);
        }
        free(waiting);
    }
    struct amb_gpu_fence *fence;
    while ((fence = gpu->fences) != NULL) {
        gpu->fences = fence->next;
        if (is_entered) {
            amb_cuda_event_destroy(gpu->cuda, fence->event);
        }
        free(fence);
    }
    if (is_entered) {
        amb_cuda_stream_destroy(gpu->cuda, gpu->stream);
        amb_cuda_leave(&scope);
    }
    amb_stage_destroy(&gpu->stage);
    (void)pthread_mutex_destroy(&gpu->lock);
    (void)pthread_mutex_destroy(&gpu->copy_lock);
    free(gpu);
}

void amb_gpus_init(struct amb_conn *conn)
{
    (void)pthread_mutex_init(&conn->gpu.lock, NULL);
}

void amb_gpus_fini(struct amb_conn *conn)
{
    while (conn->gpu.devices != NULL) {
        struct amb_gpu *gpu = conn->gpu.devices;
        conn->gpu.devices = gpu->next;
        destroy(gpu);
    }
    (void)pthread_mutex_destroy(&conn->gpu.lock);
}

/* ---- publish ---- */

enum amb_status amb_gpu_of(struct amb_conn *conn, const void *data, uint64_t len,
                           struct amb_gpu **out)
{
    struct amb_mem_place place;
    amb_cuda_classify(data, &place);
    uint64_t offset = (uintptr_t)data - place.base;
    if (place.device < 0 || offset > place.size || len > place.size - offset) {
        return amb_conn_fail(conn, AMB_EINVAL,
                             "%llu bytes of GPU memory go past the end of their allocation",
                             (unsigned long long)len);
    }
    return amb_gpu_get(conn, place.device, out);
}

enum amb_status amb_gpu_read(struct amb_conn *conn, void *to, const void *data, uint64_t len,
                             void *stream)
{
    struct amb_gpu *gpu;
    enum amb_status status = amb_gpu_of(conn, data, len, &gpu);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_stage_read(gpu->stage, to, (uintptr_t)data, len, stream);
    return status == AMB_OK ? AMB_OK
                            : amb_gpu_fail(conn, gpu, status, "cannot read what to publish");
}

/* ---- fences ---- */

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

enum amb_status amb_gpu_wait(struct amb_conn *conn, void *stream)
{
    enum amb_status status = amb_cuda_start();
    if (status != AMB_OK) {
        return missing(conn, 0, status);
    }
    status = amb_cuda_foreign_sync(stream);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "amb_out.stream: what is on it has failed");
    }
    return AMB_OK;
}

/* ---- memory that is pinned where it is ---- */

enum amb_status amb_gpu_pin(struct amb_gpu *gpu, void *memory, uint64_t size, uint64_t *address)
{
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status == AMB_OK) {
        status = amb_cuda_register(gpu->cuda, memory, size, address);
        amb_cuda_leave(&scope);
    }
    return status;
}

void amb_gpu_unpin(struct amb_gpu *gpu, void *memory)
{
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(gpu->cuda, &scope) == AMB_OK) {
        amb_cuda_unregister(gpu->cuda, memory);
        amb_cuda_leave(&scope);
    }
}

/* ---- receive ---- */

static unsigned class_of(uint64_t len)
{
    unsigned class = 0;
    while (((uint64_t)1 << (class + CLASS_MIN_BITS)) < len) {
        class ++;
    }
    return class;
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
    return &gpu->free_list[mem - AMB_MEM_PINNED][class];
}

struct amb_gpu_buffer *amb_gpu_buffer_get(struct amb_gpu *gpu, enum amb_mem mem, uint64_t len)
{
    amb_assert(mem >= AMB_MEM_PINNED && mem <= AMB_MEM_CUDA_MANAGED);
    unsigned class = class_of(len);
    if (class >= CLASSES) {
        return NULL;
    }
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_buffer **list = list_of(gpu, mem, class), *buffer = *list;
    if (buffer != NULL) {
        *list = buffer->next;
        gpu->cached -= (uint64_t)1 << (class + CLASS_MIN_BITS);
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    return buffer != NULL ? buffer : allocate(gpu, mem, class);
}

void amb_gpu_buffer_put(struct amb_gpu *gpu, struct amb_gpu_buffer *buffer)
{
    uint64_t size = (uint64_t)1 << (buffer->class + CLASS_MIN_BITS);
    (void)pthread_mutex_lock(&gpu->lock);
    bool is_kept = gpu->cached + size <= CACHED_MAX;
    if (is_kept) {
        struct amb_gpu_buffer **list = list_of(gpu, buffer->mem, buffer->class);
        gpu->cached += size;
        buffer->next = *list;
        *list = buffer;
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    struct amb_cuda_scope scope;
    if (!is_kept) {
        if (amb_cuda_enter(gpu->cuda, &scope) == AMB_OK) {
            memory_free(gpu, buffer);
            amb_cuda_leave(&scope);
        }
        free(buffer);
    }
}

enum amb_status amb_gpu_store(struct amb_gpu *gpu, uint64_t to, const void *from, uint64_t len)
{
    return amb_stage_write(gpu->stage, to, from, len);
}

enum amb_status amb_gpu_fetch(struct amb_gpu *gpu, uint64_t to, struct amb_gpu *source,
                              uint64_t from, uint64_t len)
{
    struct amb_cuda_scope scope;
    (void)pthread_mutex_lock(&gpu->copy_lock);
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status == AMB_OK) {
        if (gpu->stream == NULL) {
            status = amb_cuda_stream_create(gpu->cuda, &gpu->stream);
        }
        if (status == AMB_OK) {
            /* Also where the devices do not see each other: the driver goes by the host then. */
            (void)amb_cuda_can_reach(gpu->cuda, source->cuda);
            status = source == gpu
                         ? amb_cuda_copy(gpu->cuda, to, from, len, gpu->stream)
                         : amb_cuda_copy_peer(gpu->cuda, to, source->cuda, from, len, gpu->stream);
        }
        if (status == AMB_OK) {
            status = amb_cuda_stream_sync(gpu->cuda, gpu->stream);
        }
        amb_cuda_leave(&scope);
    }
    (void)pthread_mutex_unlock(&gpu->copy_lock);
    return status;
}

/* ---- releases behind a stream ---- */

static struct waiting *waiting_get(struct amb_gpu *gpu)
{
    (void)pthread_mutex_lock(&gpu->lock);
    struct waiting *waiting = gpu->unused;
    if (waiting != NULL) {
        gpu->unused = waiting->next;
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    if (waiting == NULL) {
        waiting = calloc(1, sizeof(*waiting));
        if (waiting != NULL && amb_cuda_event_create(gpu->cuda, &waiting->event) != AMB_OK) {
            free(waiting);
            waiting = NULL;
        }
    }
    return waiting;
}

enum amb_status amb_gpu_release_after(struct amb_gpu *gpu, struct amb_msg *msg,
                                      amb_gpu_release_fn release, void *stream)
{
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status != AMB_OK) {
        return status;
    }
    struct waiting *waiting = waiting_get(gpu);
    status =
        waiting != NULL ? amb_cuda_event_record(gpu->cuda, waiting->event, stream) : AMB_ENOMEM;
    amb_cuda_leave(&scope);
    if (waiting == NULL) {
        return status;
    }
    (void)pthread_mutex_lock(&gpu->lock);
    struct waiting **list = status == AMB_OK ? &gpu->waiting : &gpu->unused;
    waiting->msg = status == AMB_OK ? msg : NULL;
    waiting->release = release;
    waiting->next = *list;
    *list = waiting;
    if (status == AMB_OK) {
        atomic_fetch_add_explicit(&gpu->conn->gpu.waiting, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* Takes one that is over, or whose device is lost; must_wait: any, and waits for it. */
static struct amb_msg *take_over(struct amb_gpu *gpu, bool must_wait, amb_gpu_release_fn *release)
{
    struct amb_msg *msg = NULL;
    (void)pthread_mutex_lock(&gpu->lock);
    struct waiting **link = &gpu->waiting;
    while (*link != NULL && !must_wait &&
           amb_cuda_event_query(gpu->cuda, (*link)->event) == AMB_EAGAIN) {
        link = &(*link)->next;
    }
    struct waiting *waiting = *link;
    if (waiting != NULL) {
        if (must_wait) {
            (void)!amb_cuda_event_sync(gpu->cuda, waiting->event);
        }
        msg = waiting->msg;
        *release = waiting->release;
        waiting->msg = NULL;
        *link = waiting->next;
        waiting->next = gpu->unused;
        gpu->unused = waiting;
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    return msg;
}

static bool release_due(struct amb_conn *conn, bool must_wait)
{
    /* A close does not trust the counter: the devices' locks order it with late releases. */
    if (!must_wait && atomic_load_explicit(&conn->gpu.waiting, memory_order_relaxed) == 0) {
        return false;
    }
    /* The devices stay: they are added in front, and go with the connection's memory. */
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_gpu *gpu = conn->gpu.devices;
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    for (; gpu != NULL; gpu = gpu->next) {
        struct amb_msg *msg;
        amb_gpu_release_fn release = NULL;
        while ((msg = take_over(gpu, must_wait, &release)) != NULL) {
            atomic_fetch_sub_explicit(&conn->gpu.waiting, 1, memory_order_relaxed);
            release(msg);
        }
    }
    return atomic_load_explicit(&conn->gpu.waiting, memory_order_relaxed) != 0;
}

bool amb_gpus_look(struct amb_conn *conn)
{
    return release_due(conn, false);
}

void amb_gpus_settle(struct amb_conn *conn)
{
    (void)release_due(conn, true);
}
