/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/import.h"

#include "client/conn/conn.h"
#include "client/memory/later.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLOSE_PATIENCE_S 5

/* Of the process. */
struct amb_import_pool {
    struct amb_import_pool *next;
    struct amb_cuda *cuda;
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    uint64_t epoch; /* of its broker */
    uint64_t address, size;
    unsigned users;
    bool is_opening; /* the driver is at it, for its first user */
    bool is_put_off; /* `later` is: it is closed then, if nobody has come to want it */
    bool is_closing; /* the driver is at it */
    struct amb_later later;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pools_changed = PTHREAD_COND_INITIALIZER;
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
        if (place.size < range->pool) { /* 0: the driver does not say. */
            (void)amb_cuda_unimport(cuda, *address);
            status = place.size == 0 ? AMB_ECUDA : AMB_EPROTO;
        }
    }
    amb_cuda_leave(&scope);
    return status;
}

static bool has_handle(const struct amb_import_pool *pool, const struct amb_gpu_range *range)
{
    return memcmp(pool->handle, range->handle, sizeof(pool->handle)) == 0;
}

/* Does the range lie there? A broker names devices by their UUIDs. */
static bool has_range(const struct amb_import_pool *pool, const struct amb_gpu_range *range)
{
    return has_handle(pool, range) && strcmp(amb_cuda_info(pool->cuda)->uuid, range->device) == 0;
}

static struct amb_import_pool *pool_find(const struct amb_cuda *cuda,
                                         const struct amb_gpu_range *range)
{
    struct amb_import_pool *pool = pools;
    while (pool != NULL && !(pool->cuda == cuda && has_handle(pool, range))) {
        pool = pool->next;
    }
    return pool;
}

/* Is it on its way out, and of no use to that range? */
static bool is_leaving(const struct amb_import_pool *pool, const struct amb_gpu_range *range)
{
    return pool != NULL && (pool->is_closing || (pool->users == 0 && pool->epoch != range->epoch));
}

static void pool_close(struct amb_later *job);

/* pools_lock held, given up while a pool of that handle is opened or closed. A device may be busy
 * for long, with a kernel that waits for a message: a close is not awaited for ever. */
static struct amb_import_pool *pool_await(const struct amb_cuda *cuda,
                                          const struct amb_gpu_range *range)
{
    struct amb_import_pool *pool = pool_find(cuda, range);
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLOSE_PATIENCE_S;
    int rc = 0;
    bool has_tried = false;
    while (rc == 0 && pool != NULL && (pool->is_opening || is_leaving(pool, range))) {
        if (!has_tried && !pool->is_opening && !pool->is_closing && !pool->is_put_off) {
            has_tried = pool->is_put_off = true; /* A close has failed. */
            (void)pthread_mutex_unlock(&pools_lock);
            amb_later(&pool->later, pool_close);
            (void)pthread_mutex_lock(&pools_lock);
            pool = pool_find(cuda, range);
            continue;
        }
        rc = pool->is_opening
                 ? pthread_cond_wait(&pools_changed, &pools_lock)
                 : pthread_cond_clockwait(&pools_changed, &pools_lock, CLOCK_MONOTONIC, &until);
        pool = pool_find(cuda, range);
    }
    return pool;
}

static void pool_remove(struct amb_import_pool *pool)
{
    struct amb_import_pool **link = &pools;
    while (*link != pool) {
        link = &(*link)->next;
    }
    *link = pool->next;
    (void)pthread_cond_broadcast(&pools_changed);
    free(pool);
}

/* A new one, for its first user. pools_lock held, given up while the driver opens it. */
static enum amb_status pool_create(struct amb_cuda *cuda, const struct amb_gpu_range *range,
                                   struct amb_import_pool **out)
{
    struct amb_import_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return AMB_ENOMEM;
    }
    pool->cuda = cuda;
    pool->size = range->pool;
    pool->epoch = range->epoch;
    memcpy(pool->handle, range->handle, sizeof(pool->handle));
    pool->users = 1;
    pool->is_opening = true;
    pool->next = pools;
    pools = pool;
    uint64_t address = 0;
    (void)pthread_mutex_unlock(&pools_lock);
    enum amb_status status = open_handle(cuda, range, &address);
    (void)pthread_mutex_lock(&pools_lock);
    if (status != AMB_OK) {
        pool_remove(pool);
        return status;
    }
    pool->address = address;
    pool->is_opening = false;
    (void)pthread_cond_broadcast(&pools_changed);
    *out = pool;
    return AMB_OK;
}

/* pools_lock held. */
static enum amb_status pool_open(struct amb_cuda *cuda, const struct amb_gpu_range *range,
                                 struct amb_import_pool **out)
{
    struct amb_import_pool *pool = pool_await(cuda, range);
    if (pool != NULL && (pool->is_closing || pool->epoch != range->epoch)) {
        return AMB_EBUSY;
    }
    if (pool == NULL) {
        return pool_create(cuda, range, out);
    }
    pool->users++;
    *out = pool;
    return AMB_OK;
}

/* False: it is open still. */
static bool unimport(const struct amb_import_pool *pool)
{
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(pool->cuda, &scope);
    if (status == AMB_OK) {
        status = amb_cuda_unimport(pool->cuda, pool->address);
        amb_cuda_leave(&scope);
    }
    return status == AMB_OK || !amb_cuda_is_sound(pool->cuda);
}

/* Closes it, if nobody has come to want it. */
static void pool_close(struct amb_later *job)
{
    struct amb_import_pool *pool = AMB_CONTAINER_OF(job, struct amb_import_pool, later);
    (void)pthread_mutex_lock(&pools_lock);
    pool->is_put_off = false;
    if (pool->users == 0) {
        pool->is_closing = true;
        (void)pthread_mutex_unlock(&pools_lock);
        bool is_closed = unimport(pool);
        (void)pthread_mutex_lock(&pools_lock);
        pool->is_closing = false;
        if (is_closed) {
            pool_remove(pool);
        } else { /* Its next user finds it open, or has it closed once more. */
            (void)pthread_cond_broadcast(&pools_changed);
        }
    }
    (void)pthread_mutex_unlock(&pools_lock);
}

static void pool_leave(struct amb_import_pool *pool)
{
    (void)pthread_mutex_lock(&pools_lock);
    amb_assert(pool->users != 0);
    bool is_last = --pool->users == 0 && !pool->is_put_off;
    pool->is_put_off = pool->is_put_off || is_last;
    (void)pthread_mutex_unlock(&pools_lock);
    if (is_last) {
        amb_later(&pool->later, pool_close);
    }
}

static enum amb_status import_new(struct amb_conn *conn, struct amb_cuda *cuda,
                                  const struct amb_gpu_range *range, struct amb_import **out)
{
    struct amb_import *import = calloc(1, sizeof(*import));
    if (import == NULL) {
        return AMB_ENOMEM;
    }
    import->conn = conn;
    import->life = range->life;
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

/* The one that the connection has in that session, for one more borrower; NULL: none. Its lock of
 * GPUs is held. */
static struct amb_import *import_find(struct amb_conn *conn, const struct amb_gpu_range *range)
{
    struct amb_import *import = conn->gpu.imports;
    while (import != NULL && !(import->life == range->life && has_range(import->pool, range) &&
                               import->pool->epoch == range->epoch)) {
        import = import->next;
    }
    if (import != NULL) {
        import->borrowers++;
    }
    return import;
}

/* The same, or a new one. */
static enum amb_status import_get(struct amb_conn *conn, struct amb_cuda *cuda,
                                  const struct amb_gpu_range *range, struct amb_import **out)
{
    struct amb_import *fresh;
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_import *import = import_find(conn, range);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (import == NULL) {
        enum amb_status status = import_new(conn, cuda, range, &fresh);
        if (status != AMB_OK) {
            return status;
        }
        (void)pthread_mutex_lock(&conn->gpu.lock);
        import = import_find(conn, range);
        if (import == NULL) {
            import = fresh;
            import->borrowers = 1;
            import->next = conn->gpu.imports;
            conn->gpu.imports = import;
        } else { /* Another thread has been quicker. */
            pool_leave(fresh->pool);
            free(fresh);
        }
        (void)pthread_mutex_unlock(&conn->gpu.lock);
    }
    *out = import;
    return AMB_OK;
}

/* Those of sessions that are over, and that nobody has borrowed. */
static void close_unused(struct amb_conn *conn)
{
    struct amb_import **link = &conn->gpu.imports;
    while (*link != NULL) {
        struct amb_import *import = *link;
        if (import->borrowers != 0 || import->life >= conn->gpu.sessions_over) {
            link = &import->next;
            continue;
        }
        *link = import->next;
        pool_leave(import->pool);
        free(import);
    }
}

void amb_import_return(struct amb_import *import)
{
    struct amb_conn *conn = import != NULL ? import->conn : NULL;
    if (conn == NULL || amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return; /* A child of fork has its parent's open, and not its own. */
    }
    (void)pthread_mutex_lock(&conn->gpu.lock);
    amb_assert(import->borrowers != 0);
    import->borrowers--;
    close_unused(conn);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
}

void amb_imports_over(struct amb_conn *conn)
{
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return;
    }
    (void)pthread_mutex_lock(&conn->gpu.lock);
    conn->gpu.sessions_over = conn->session.life + 1;
    close_unused(conn);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
}

static const char *reason(enum amb_status status)
{
    switch ((int)status) {
    case AMB_ENOTSUP:
        return "the broker's GPU memory cannot be opened in this process (IPC, namespaces)";
    case AMB_ENOTFOUND:
        return "this process does not see that GPU (CUDA_VISIBLE_DEVICES, MIG, containers)";
    case AMB_EBUSY:
        return "another broker's GPU memory, or that of its former life, is open here under the "
               "same handle, or is still being closed";
    case AMB_ENOMEM:
        return "no memory to open the broker's GPU memory";
    case AMB_EPROTO:
        return "the broker's GPU memory is not what it says";
    default:
        return "the GPU has failed in this process";
    }
}

/* A device that is not this process's by its mode has not failed. */
static const char *reason_of_device(const char *device, enum amb_status status)
{
    struct amb_cuda *cuda = status == AMB_ECUDA ? amb_cuda_seen(device) : NULL;
    const char *refusal = cuda != NULL ? amb_cuda_refusal(cuda) : NULL;
    return refusal != NULL ? refusal : reason(status);
}

static bool is_well_formed(const struct amb_gpu_range *range, uint64_t size)
{
    return range->offset <= range->pool && size <= range->pool - range->offset &&
           range->offset % 256 == 0;
}

/* The borrowed import and its device become *out. */
static enum amb_status say(struct amb_imported *got, const struct amb_gpu_range *range,
                           struct amb_imported *out)
{
    if (got->import->pool->size != range->pool) {
        amb_import_return(got->import);
        return AMB_EPROTO;
    }
    got->address = got->import->pool->address + range->offset;
    *out = *got;
    return AMB_OK;
}

static enum amb_status import_range(struct amb_conn *conn, const struct amb_gpu_range *range,
                                    uint64_t size, struct amb_imported *out)
{
    struct amb_cuda *cuda;
    struct amb_imported got;
    if (!is_well_formed(range, size)) {
        return AMB_EPROTO;
    }
    enum amb_status status = amb_cuda_find(range->device, &cuda);
    if (status == AMB_OK) {
        status = amb_gpu_get(conn, amb_cuda_info(cuda)->index, &got.gpu);
    }
    if (status == AMB_OK) {
        status = import_get(conn, cuda, range, &got.import);
    }
    return status == AMB_OK ? say(&got, range, out) : status;
}

enum amb_status amb_gpu_import_open(struct amb_conn *conn, const struct amb_gpu_range *range,
                                    uint64_t size, struct amb_imported *out)
{
    struct amb_imported got = {.import = NULL};
    if (!is_well_formed(range, size)) {
        return AMB_EAGAIN;
    }
    (void)pthread_mutex_lock(&conn->gpu.lock);
    got.import = import_find(conn, range);
    got.gpu = got.import != NULL ? amb_gpu_known(conn, got.import->pool->cuda) : NULL;
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (got.import != NULL && got.gpu == NULL) {
        amb_import_return(got.import);
        return AMB_EAGAIN;
    }
    return got.import != NULL ? say(&got, range, out) : AMB_EAGAIN;
}

enum amb_status amb_gpu_import(struct amb_conn *conn, const struct amb_gpu_range *range,
                               uint64_t size, struct amb_imported *out, const char **why)
{
    enum amb_status status = import_range(conn, range, size, out);
    *why = status == AMB_OK ? "" : reason_of_device(range->device, status);
    return status;
}

bool amb_gpu_range_read(const struct amb_conn *conn, const Amb__Control__GpuRange *from,
                        struct amb_gpu_range *out)
{
    *out = (struct amb_gpu_range){.epoch = conn->session.epoch, .life = conn->session.life};
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
        pool_leave(import->pool);
        free(import);
    }
}
