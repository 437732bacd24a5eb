/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/memory/gpu_buffer.h"
#include "client/memory/gpu_fence.h"
#include "client/memory/gpu_private.h"
#include "client/memory/gpu_release.h"
#include "wire/base/list.h"
#include "wire/mem/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices ---- */

enum amb_status amb_gpu_fail(struct amb_conn *conn, struct amb_gpu *gpu, enum amb_status status,
                             const char *what)
{
    char text[200];
    if (status == AMB_ESTATE) {
        return amb_conn_fail(conn, status, "%s: %s", what, amb_cuda_captures);
    }
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

void amb_conn_gpus_renew(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    for (struct amb_gpu *gpu = conn->gpu.devices; gpu != NULL; gpu = gpu->next) {
        gpu->room = (struct amb_gpu_room){.bytes = gpu->room.bytes};
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
}

void amb_conn_gpus_count_in(struct amb_conn *conn, uint64_t bytes, const char *why)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    conn->gpu.staged_in += bytes;
    conn->gpu.staged_in_msgs++;
    if (strcmp(conn->gpu.staged_why, why) != 0) {
        (void)snprintf(conn->gpu.staged_why, sizeof(conn->gpu.staged_why), "%s", why);
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
}

void amb_conn_gpus_staged(struct amb_conn *conn, struct amb_gpus_staged *out)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    out->in = conn->gpu.staged_in;
    out->in_msgs = conn->gpu.staged_in_msgs;
    memcpy(out->why, conn->gpu.staged_why, AMB_GPU_WHY_BYTES);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    out->out = atomic_load_explicit(&conn->gpu.staged_out, memory_order_relaxed);
    out->out_msgs = atomic_load_explicit(&conn->gpu.staged_out_msgs, memory_order_relaxed);
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

static void destroy(struct amb_gpu *gpu)
{
    struct amb_cuda_scope scope;
    bool is_entered = amb_cuda_enter(gpu->cuda, &scope) == AMB_OK;
    amb_gpu_buffers_fini(gpu, is_entered);
    amb_gpu_releases_fini(gpu, is_entered);
    amb_gpu_fences_fini(gpu, is_entered);
    if (is_entered) {
        amb_cuda_stream_destroy(gpu->cuda, gpu->stream);
        amb_cuda_leave(&scope);
    }
    amb_stage_destroy(&gpu->stage);
    (void)pthread_mutex_destroy(&gpu->lock);
    (void)pthread_mutex_destroy(&gpu->copy_lock);
    free(gpu);
}

/* Enters a new device, unless another thread has been quicker. Returns the one that is there. */
static struct amb_gpu *enter(struct amb_conn *conn, struct amb_gpu *fresh)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_gpu *gpu = find(conn, amb_cuda_info(fresh->cuda)->index);
    if (gpu == NULL) {
        gpu = fresh;
        gpu->next = conn->gpu.devices;
        conn->gpu.devices = gpu;
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (gpu != fresh) {
        destroy(fresh);
    }
    return gpu;
}

struct amb_gpu *amb_gpu_known(struct amb_conn *conn, const struct amb_cuda *cuda)
{
    return find(conn, amb_cuda_info(cuda)->index);
}

enum amb_status amb_gpu_get(struct amb_conn *conn, int device, struct amb_gpu **out)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_gpu *gpu = find(conn, device);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (gpu == NULL) {
        /* Without the lock: a device may take seconds to come up. */
        enum amb_status status = create(conn, device, &gpu);
        if (status != AMB_OK) {
            return missing(conn, device, status);
        }
        gpu = enter(conn, gpu);
    }
    *out = gpu;
    return AMB_OK;
}

void amb_conn_gpus_init(struct amb_conn *conn)
{
    (void)pthread_mutex_init(&conn->gpu.lock, NULL);
}

void amb_gpus_own_thread(void)
{
    amb_cuda_own_thread();
}

static void destroy_later(struct amb_later *job)
{
    destroy(AMB_CONTAINER_OF(job, struct amb_gpu, later));
}

void amb_conn_gpus_fini(struct amb_conn *conn)
{
    while (conn->gpu.devices != NULL) {
        struct amb_gpu *gpu = conn->gpu.devices;
        conn->gpu.devices = gpu->next;
        amb_later(&gpu->later,
                  destroy_later); /* Its memory is freed, which waits for the device. */
    }
    (void)pthread_mutex_destroy(&conn->gpu.lock);
}

/* ---- copies ---- */

enum amb_status amb_gpu_at(struct amb_conn *conn, const struct amb_mem_place *place,
                           const void *data, uint64_t len, struct amb_gpu **out)
{
    if (place->device < 0) { /* Memory of no host, and the driver does not say of which device. */
        return amb_conn_fail(
            conn, AMB_ECUDA,
            "the CUDA driver does not know what to publish: a GPU may have failed");
    }
    uint64_t offset = (uintptr_t)data - place->base;
    if (offset > place->size || len > place->size - offset) {
        return amb_conn_fail(conn, AMB_EINVAL,
                             "%llu bytes of GPU memory go past the end of their allocation",
                             (unsigned long long)len);
    }
    return amb_gpu_get(conn, place->device, out);
}

enum amb_status amb_gpu_of(struct amb_conn *conn, const void *data, uint64_t len,
                           struct amb_gpu **out)
{
    struct amb_mem_place place;
    amb_cuda_locate(data, &place);
    return amb_gpu_at(conn, &place, data, len, out);
}

enum amb_status amb_gpu_read(struct amb_gpu *gpu, void *to, const void *data, uint64_t len,
                             void *stream)
{
    enum amb_status status = amb_stage_read(gpu->stage, to, (uintptr_t)data, len, stream);
    return status == AMB_OK ? AMB_OK
                            : amb_gpu_fail(gpu->conn, gpu, status, "cannot read what to publish");
}

enum amb_status amb_gpu_read_whole(struct amb_conn *conn, void *to, const void *data, uint64_t len)
{
    struct amb_gpu *gpu;
    enum amb_status status = amb_gpu_of(conn, data, len, &gpu);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_stage_read_whole(gpu->stage, to, (uintptr_t)data, len);
    return status == AMB_OK ? AMB_OK : amb_gpu_fail(conn, gpu, status, "cannot read a payload");
}

enum amb_status amb_gpu_wait(struct amb_conn *conn, void *stream)
{
    enum amb_status status = amb_cuda_start();
    if (status != AMB_OK) {
        return missing(conn, 0, status);
    }
    status = amb_cuda_program_sync(stream);
    if (status == AMB_ESTATE) {
        return amb_conn_fail(conn, status, "amb_out.stream: %s", amb_cuda_captures);
    }
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
            amb_cuda_let_reach(gpu->cuda, source->cuda);
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
