/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/import.h"

#include "client/conn/conn.h"

#include <stdlib.h>
#include <string.h>

/* Of the process. */
struct amb_import_pool {
    struct amb_import_pool *next;
    struct amb_cuda *cuda;
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    uint64_t epoch; /* of its broker */
    uint64_t address, size;
    unsigned users;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct amb_import_pool *pools;

static enum amb_status open_handle(struct amb_cuda *cuda, const struct amb_gpu_range *range,
                                   uint64_t *address)
{
    struct amb_cuda_scope scope;
    struct amb_mem_place place;
    enum amb_status status = amb_cuda_enter(cuda, &scope);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_cuda_import(cuda, range->handle, address);
    if (status == AMB_OK) {
        amb_cuda_classify((const void *)(uintptr_t)*address, &place);
        if (place.size < range->pool) {
            amb_cuda_unimport(cuda, *address);
            status = AMB_EPROTO;
        }
    }
    amb_cuda_leave(&scope);
    return status;
}

static bool has_handle(const struct amb_import_pool *pool, const struct amb_cuda *cuda,
                       const struct amb_gpu_range *range)
{
    return pool->cuda == cuda && memcmp(pool->handle, range->handle, sizeof(pool->handle)) == 0;
}

/* pools_lock held. */
static enum amb_status pool_open(struct amb_cuda *cuda, const struct amb_gpu_range *range,
                                 struct amb_import_pool **out)
{
    struct amb_import_pool *pool = pools;
    while (pool != NULL && !has_handle(pool, cuda, range)) {
        pool = pool->next;
    }
    if (pool != NULL && pool->epoch != range->epoch) {
        return AMB_EBUSY;
    }
    if (pool == NULL) {
        pool = calloc(1, sizeof(*pool));
        enum amb_status status =
            pool != NULL ? open_handle(cuda, range, &pool->address) : AMB_ENOMEM;
        if (status != AMB_OK) {
            free(pool);
            return status;
        }
        pool->cuda = cuda;
        pool->size = range->pool;
        pool->epoch = range->epoch;
        memcpy(pool->handle, range->handle, sizeof(pool->handle));
        pool->next = pools;
        pools = pool;
    }
    pool->users++;
    *out = pool;
    return AMB_OK;
}

static void pool_close(struct amb_import_pool *pool)
{
    (void)pthread_mutex_lock(&pools_lock);
    if (--pool->users == 0) {
        struct amb_cuda_scope scope;
        struct amb_import_pool **link = &pools;
        while (*link != pool) {
            link = &(*link)->next;
        }
        *link = pool->next;
        if (amb_cuda_enter(pool->cuda, &scope) == AMB_OK) {
            amb_cuda_unimport(pool->cuda, pool->address);
            amb_cuda_leave(&scope);
        }
        free(pool);
    }
    (void)pthread_mutex_unlock(&pools_lock);
}

static enum amb_status import_new(struct amb_cuda *cuda, const struct amb_gpu_range *range,
                                  struct amb_import **out)
{
    struct amb_import *import = calloc(1, sizeof(*import));
    if (import == NULL) {
        return AMB_ENOMEM;
    }
    (void)pthread_mutex_lock(&pools_lock);
    enum amb_status status = pool_open(cuda, range, &import->pool);
    (void)pthread_mutex_unlock(&pools_lock);
    if (status != AMB_OK) {
        free(import);
        return status;
    }
    *out = import;
    return AMB_OK;
}

/* The one that the connection has, or a new one. */
static enum amb_status import_get(struct amb_conn *conn, struct amb_cuda *cuda,
                                  const struct amb_gpu_range *range, struct amb_import_pool **out)
{
    enum amb_status status = AMB_OK;
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_import *import = conn->gpu.imports;
    while (import != NULL &&
           !(has_handle(import->pool, cuda, range) && import->pool->epoch == range->epoch)) {
        import = import->next;
    }
    if (import == NULL) {
        status = import_new(cuda, range, &import);
        if (status == AMB_OK) {
            import->next = conn->gpu.imports;
            conn->gpu.imports = import;
        }
    }
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (status == AMB_OK) {
        *out = import->pool;
    }
    return status;
}

static const char *reason(enum amb_status status)
{
    switch ((int)status) {
    case AMB_ENOTSUP:
        return "the broker's GPU memory cannot be opened in this process (IPC, namespaces)";
    case AMB_ENOTFOUND:
        return "this process does not see that GPU (CUDA_VISIBLE_DEVICES, containers)";
    case AMB_EBUSY:
        return "another broker's GPU memory, or that of its former life, is open here under the "
               "same handle";
    case AMB_ENOMEM:
        return "no memory to open the broker's GPU memory";
    case AMB_EPROTO:
        return "the broker's GPU memory is not what it says";
    default:
        return "the GPU has failed in this process";
    }
}

static enum amb_status import(struct amb_conn *conn, const struct amb_gpu_range *range,
                              uint64_t size, struct amb_gpu **gpu, uint64_t *address)
{
    struct amb_cuda *cuda;
    struct amb_import_pool *pool;
    if (range->offset > range->pool || size > range->pool - range->offset ||
        range->offset % 256 != 0) {
        return AMB_EPROTO;
    }
    enum amb_status status = amb_cuda_find(range->device, &cuda);
    if (status == AMB_OK) {
        status = amb_gpu_get(conn, amb_cuda_info(cuda)->index, gpu);
    }
    if (status == AMB_OK) {
        status = import_get(conn, cuda, range, &pool);
    }
    if (status == AMB_OK && pool->size != range->pool) {
        status = AMB_EPROTO;
    }
    if (status == AMB_OK) {
        *address = pool->address + range->offset;
    }
    return status;
}

enum amb_status amb_gpu_import(struct amb_conn *conn, const struct amb_gpu_range *range,
                               uint64_t size, struct amb_gpu **gpu, uint64_t *address,
                               const char **why)
{
    enum amb_status status = import(conn, range, size, gpu, address);
    *why = status == AMB_OK ? "" : reason(status);
    return status;
}

bool amb_gpu_range_read(const Amb__Control__GpuRange *from, uint64_t epoch,
                        struct amb_gpu_range *out)
{
    *out = (struct amb_gpu_range){.epoch = epoch};
    if (from == NULL) {
        return true;
    }
    if (from->handle.len != sizeof(out->handle) || from->device[0] == '\0' ||
        strlen(from->device) >= sizeof(out->device)) {
        return false;
    }
    memcpy(out->device, from->device, strlen(from->device) + 1);
    memcpy(out->handle, from->handle.data, sizeof(out->handle));
    out->offset = from->offset;
    out->pool = from->pool;
    return true;
}

void amb_imports_fini(struct amb_conn *conn)
{
    struct amb_import *import;
    while ((import = conn->gpu.imports) != NULL) {
        conn->gpu.imports = import->next;
        pool_close(import->pool);
        free(import);
    }
}
