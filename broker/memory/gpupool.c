/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/gpupool.h"

#include "broker/config/config.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000 /* how often the devices are looked at */
#define RETRY_NS (2 * AMB_NS_PER_SEC)
#define STUCK_NS (5 * AMB_NS_PER_SEC) /* a copy of 2 MiB takes less than a millisecond */

/* Ranges ----------------------------------------------------------------------------------------
 */

enum amb_status amb_gpu_pool_take(struct amb_gpu_pool *pool, uint64_t size, uint64_t *offset)
{
    amb_assert(size != 0 && size % AMB_GPU_UNIT == 0 && amb_gpu_pool_is_made(pool));
    uint64_t need = size / AMB_GPU_UNIT, units = pool->size / AMB_GPU_UNIT, run = 0;
    enum amb_status status = AMB_ENOMEM;
    (void)pthread_mutex_lock(&pool->lock);
    for (uint64_t i = 0; i < units && status != AMB_OK; i++) {
        run = pool->taken[i] == 0 ? run + 1 : 0;
        if (run == need) {
            uint64_t first = i + 1 - need;
            memset(pool->taken + first, 1, need);
            pool->used += size;
            *offset = first * AMB_GPU_UNIT;
            status = AMB_OK;
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return status;
}

void amb_gpu_pool_give(struct amb_gpu_pool *pool, uint64_t offset, uint64_t size)
{
    amb_assert(offset % AMB_GPU_UNIT == 0 && offset + size <= pool->size);
    (void)pthread_mutex_lock(&pool->lock);
    for (uint64_t i = 0; i < size / AMB_GPU_UNIT; i++) {
        amb_assert(pool->taken[offset / AMB_GPU_UNIT + i] == 1);
    }
    memset(pool->taken + offset / AMB_GPU_UNIT, 0, size / AMB_GPU_UNIT);
    pool->used -= size;
    (void)pthread_mutex_unlock(&pool->lock);
}

uint64_t amb_gpu_pool_used(struct amb_gpu_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    uint64_t used = pool->used;
    (void)pthread_mutex_unlock(&pool->lock);
    return used;
}

struct amb_gpu_pool *amb_gpus_find(const struct amb_gpus *gpus, const char *uuid)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        if (strcmp(amb_cuda_info(gpus->pools[i].cuda)->uuid, uuid) == 0) {
            return &gpus->pools[i];
        }
    }
    return NULL;
}

/* The copier ------------------------------------------------------------------------------------
 */

static void note_loss(struct amb_gpu_pool *pool)
{
    if (!amb_cuda_is_sound(pool->cuda) && !atomic_exchange(&pool->is_lost, true)) {
        amb_error("GPU %d: nothing more is taken in there; host memory goes on",
                  amb_cuda_info(pool->cuda)->index);
    }
}

/* A copy is over. */
static void note_copy(void *owner, enum amb_status status, uint64_t bytes)
{
    struct amb_gpu_pool *pool = owner;
    if (status == AMB_OK) {
        (void)atomic_fetch_add_explicit(&pool->staged_bytes, bytes, memory_order_relaxed);
        return;
    }
    bool is_first = atomic_fetch_add_explicit(&pool->stage_failures, 1, memory_order_relaxed) == 0;
    if (is_first && amb_cuda_is_sound(pool->cuda)) {
        char text[200];
        amb_cuda_failure(pool->cuda, text, sizeof(text));
        amb_error("GPU %d: a copy to host memory failed: %s; more of these are counted alone",
                  amb_cuda_info(pool->cuda)->index,
                  text[0] != '\0' ? text : amb_status_text(status));
    }
    note_loss(pool);
}

/* Sticky errors show at any call: a byte is read. */
static void look(struct amb_gpu_pool *pool)
{
    if (amb_gpu_pool_is_made(pool) && amb_gpu_pool_is_sound(pool)) {
        amb_gather_probe(pool->gather, pool->base);
        note_loss(pool);
    }
}

/* The driver has a context, allocates, exports, and has memory for copies; or all is as it was. */
static enum amb_status pool_make(struct amb_gpu_pool *pool)
{
    struct amb_cuda_scope scope;
    struct amb_cuda *same; /* It is at pool->cuda already, which other threads read. */
    enum amb_status status = amb_cuda_at(amb_cuda_info(pool->cuda)->index, &same);
    status = status == AMB_OK ? amb_cuda_enter(pool->cuda, &scope) : status;
    if (status != AMB_OK) {
        return status;
    }
    status = amb_cuda_alloc(pool->cuda, pool->size, &pool->base);
    status = status == AMB_OK ? amb_gather_create(pool->cuda, 0, note_copy, pool, &pool->gather)
                              : status;
    if (status == AMB_OK) {
        pool->is_exported = amb_cuda_export(pool->cuda, pool->base, pool->handle) == AMB_OK;
    } else {
        amb_cuda_free(pool->cuda, pool->base);
        pool->base = 0;
    }
    amb_cuda_leave(&scope);
    if (status != AMB_OK) {
        return status;
    }
    if (!pool->is_exported) {
        char text[200];
        amb_cuda_failure(pool->cuda, text, sizeof(text));
        amb_warn("GPU %d: its memory cannot be shared with clients: they are served by copies (%s)",
                 amb_cuda_info(pool->cuda)->index, text);
    }
    const char *mode = amb_cuda_mode_alone(amb_cuda_info(pool->cuda));
    if (mode != NULL) {
        amb_warn("GPU %d is in %s mode, and this broker has it: no client can use it",
                 amb_cuda_info(pool->cuda)->index, mode);
    }
    amb_info("GPU %d (%s): a pool of %" PRIu64 " bytes", amb_cuda_info(pool->cuda)->index,
             amb_cuda_info(pool->cuda)->name, pool->size);
    atomic_store_explicit(&pool->is_made, true, memory_order_release); /* amb_gpu_pool_is_made */
    return AMB_OK;
}

/* It had no room. A device that is lost since is not asked. */
static void try_again(struct amb_gpu_pool *pool, int64_t now_ns)
{
    pool->retry_ns = 0;
    enum amb_status status = amb_gpu_pool_is_sound(pool) ? pool_make(pool) : AMB_ECUDA;
    if (status == AMB_OK) {
        return;
    }
    note_loss(pool);
    if (!amb_gpu_pool_is_sound(pool)) {
        return;
    }
    if (status != amb_gpu_pool_retry_status(pool)) { /* Room is not what it lacks now. */
        char text[200];
        amb_cuda_failure(pool->cuda, text, sizeof(text));
        amb_warn("GPU %d: no pool yet: %s", amb_cuda_info(pool->cuda)->index,
                 text[0] != '\0' ? text : amb_status_text(status));
        atomic_store_explicit(&pool->retry_status, status, memory_order_relaxed);
    }
    pool->retry_ns = now_ns + RETRY_NS;
}

/* Sleeps until there is mail. False: there was none for long. */
static bool wait_for_mail(struct amb_gpu_pool *pool)
{
    struct pollfd bell = {.fd = pool->inbox.bell, .events = POLLIN};
    int ready = amb_inbox_arm(&pool->inbox) ? poll(&bell, 1, LOOK_MS) : 1;
    amb_inbox_disarm(&pool->inbox, ready > 0 && (bell.revents & POLLIN) != 0);
    return ready != 0;
}

static void *copier_main(void *arg)
{
    struct amb_gpu_pool *pool = arg;
    char name[16];
    (void)snprintf(name, sizeof(name), "amb-copier-%d", amb_cuda_info(pool->cuda)->index);
    (void)pthread_setname_np(pthread_self(), name);
    bool is_bound = false, is_busy = false;
    while (is_busy || !pool->is_stopping) {
        atomic_store_explicit(&pool->busy_since_ns, 0, memory_order_relaxed);
        bool has_mail = is_busy || wait_for_mail(pool);
        atomic_store_explicit(&pool->busy_since_ns, amb_clock_monotonic_ns(), memory_order_relaxed);
        /* Unbound, each use of the device has more calls. */
        is_bound = is_bound || (amb_gpu_pool_is_made(pool) && amb_cuda_bind(pool->cuda) == AMB_OK);
        if (amb_inbox_run(&pool->inbox) == 0 && !has_mail) {
            look(pool);
        }
        is_busy = amb_gpu_pool_is_made(pool) && amb_gather_turn(pool->gather);
        int64_t now_ns = pool->retry_ns != 0 ? amb_clock_monotonic_ns() : 0;
        if (now_ns > pool->retry_ns) {
            try_again(pool, now_ns);
        }
    }
    return NULL;
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    (void)mail;
    ((struct amb_gpu_pool *)owner)->is_stopping = true;
}

/* Joins it. False: it waits for a device that does not answer. */
static bool copier_join(struct amb_gpu_pool *pool, int64_t deadline_ns)
{
    deadline_ns += amb_clock_realtime_ns() - amb_clock_monotonic_ns();
    struct timespec until = {.tv_sec = deadline_ns / AMB_NS_PER_SEC,
                             .tv_nsec = deadline_ns % AMB_NS_PER_SEC};
    if (pthread_timedjoin_np(pool->thread, NULL, &until) != 0) {
        amb_error("GPU %d does not answer: its copier cannot be ended",
                  amb_cuda_info(pool->cuda)->index);
        return false;
    }
    pool->is_running = false;
    amb_inbox_fini(&pool->inbox);
    return true;
}

bool amb_gpus_stop(struct amb_gpus *gpus)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        if (gpus->pools[i].is_running) {
            amb_mail_post(&gpus->pools[i].inbox, &gpus->pools[i].stop, stop_arrived);
        }
    }
    bool has_ended = true;
    int64_t deadline_ns = amb_clock_monotonic_ns() + STUCK_NS;
    for (uint32_t i = 0; i < gpus->count; i++) {
        if (gpus->pools[i].is_running) {
            has_ended = copier_join(&gpus->pools[i], deadline_ns) && has_ended;
        }
    }
    return has_ended;
}

bool amb_gpu_pool_is_stuck(const struct amb_gpu_pool *pool, int64_t now_ns)
{
    int64_t since_ns = atomic_load_explicit(&pool->busy_since_ns, memory_order_relaxed);
    return since_ns != 0 && now_ns - since_ns > STUCK_NS;
}

void amb_gpus_look(const struct amb_gpus *gpus, int64_t now_ns)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        struct amb_gpu_pool *pool = &gpus->pools[i];
        bool is_stuck = amb_gpu_pool_is_stuck(pool, now_ns);
        if (is_stuck && !pool->is_noted_stuck) {
            amb_error("GPU %d has not answered for %d s: copies from there wait",
                      amb_cuda_info(pool->cuda)->index, (int)(STUCK_NS / AMB_NS_PER_SEC));
        } else if (!is_stuck && pool->is_noted_stuck) {
            amb_info("GPU %d answers again", amb_cuda_info(pool->cuda)->index);
        }
        pool->is_noted_stuck = is_stuck;
    }
}

/* Start and end ---------------------------------------------------------------------------------
 */

static enum amb_status pool_fail(const struct amb_gpu_pool *pool, enum amb_status status,
                                 char *error, size_t error_size)
{
    char text[200];
    amb_cuda_failure(pool->cuda, text, sizeof(text));
    (void)snprintf(error, error_size, "memory.cuda: %" PRIu64 " bytes on GPU %d: %s", pool->size,
                   amb_cuda_info(pool->cuda)->index,
                   text[0] != '\0' ? text : amb_status_text(status));
    return status;
}

/* Others have the memory, or the former life of this broker has: it may come back. */
static void say_no_room(struct amb_gpu_pool *pool)
{
    char text[200];
    amb_cuda_failure(pool->cuda, text, sizeof(text));
    amb_warn("GPU %d: no room for a pool of %" PRIu64 " bytes (%s): host memory serves until there "
             "is, which is tried every %d s",
             amb_cuda_info(pool->cuda)->index, pool->size, text, (int)(RETRY_NS / AMB_NS_PER_SEC));
    atomic_store_explicit(&pool->retry_status, AMB_ENOMEM, memory_order_relaxed);
    pool->retry_ns = amb_clock_monotonic_ns() + RETRY_NS;
}

static enum amb_status pool_init(struct amb_gpus *gpus, struct amb_cuda *cuda, uint64_t size,
                                 char *error, size_t error_size)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        if (gpus->pools[i].cuda == cuda) {
            (void)snprintf(error, error_size, "memory.cuda.devices: GPU %d is named twice",
                           amb_cuda_info(cuda)->index);
            return AMB_EINVAL;
        }
    }
    struct amb_gpu_pool *pool = &gpus->pools[gpus->count];
    pool->index = gpus->count++;
    pool->cuda = cuda;
    pool->size = size & ~(AMB_GPU_UNIT - 1);
    (void)pthread_mutex_init(&pool->lock, NULL);
    pool->taken = calloc(pool->size / AMB_GPU_UNIT, 1);
    enum amb_status status = pool->taken == NULL ? AMB_ENOMEM : pool_make(pool);
    if (status == AMB_ENOMEM && pool->taken != NULL && pool->size <= amb_cuda_info(cuda)->memory) {
        say_no_room(pool);
        return AMB_OK;
    }
    return status == AMB_OK ? AMB_OK : pool_fail(pool, status, error, error_size);
}

/* A device whose context the driver does not give. */
static void say_unusable(const char *key, const char *name, enum amb_status status, char *error,
                         size_t error_size)
{
    struct amb_cuda *cuda = amb_cuda_seen(name);
    char text[200] = "";
    if (cuda != NULL) {
        amb_cuda_failure(cuda, text, sizeof(text));
    }
    (void)snprintf(error, error_size, "%s: GPU \"%s\" cannot be used: %s", key, name,
                   text[0] != '\0' ? text : amb_status_text(status));
}

static enum amb_status pools_init(struct amb_gpus *gpus, const struct amb_config *config,
                                  char *error, size_t error_size)
{
    const struct amb_config_strings *names = &config->memory.cuda.devices;
    uint32_t count = names->count == 0 ? amb_cuda_count() : (uint32_t)names->count;
    gpus->pools = calloc(count, sizeof(*gpus->pools));
    if (gpus->pools == NULL) {
        (void)snprintf(error, error_size, "memory.cuda: no memory for %" PRIu32 " pools", count);
        return AMB_ENOMEM;
    }
    enum amb_status status = AMB_OK;
    for (uint32_t i = 0; i < count && status == AMB_OK; i++) {
        struct amb_cuda *cuda = NULL;
        status =
            names->count == 0 ? amb_cuda_at((int)i, &cuda) : amb_cuda_find(names->items[i], &cuda);
        if (status == AMB_OK || (status == AMB_ENOMEM && cuda != NULL)) {
            status = pool_init(gpus, cuda, config->memory.cuda.size, error, error_size);
        } else if (names->count == 0) {
            char index[16];
            (void)snprintf(index, sizeof(index), "%" PRIu32, i);
            say_unusable("memory.cuda", index, status, error, error_size);
        } else if (status != AMB_ENOTFOUND) {
            say_unusable("memory.cuda.devices", names->items[i], status, error, error_size);
        } else {
            (void)snprintf(error, error_size, "memory.cuda.devices: there is no GPU \"%s\"%s",
                           names->items[i],
                           amb_cuda_is_old_part(names->items[i])
                               ? ": where CUDA_VISIBLE_DEVICES does not begin with it, a part has "
                                 "its own UUID alone, MIG-... (nvidia-smi -L)"
                               : "");
        }
    }
    return status;
}

static enum amb_status copier_start(struct amb_gpu_pool *pool, char *error, size_t error_size)
{
    enum amb_status status = amb_inbox_init(&pool->inbox, pool);
    if (status != AMB_OK) {
        (void)snprintf(error, error_size, "memory.cuda: no descriptor for the copier: %s",
                       amb_status_text(status));
        return status;
    }
    int rc = pthread_create(&pool->thread, NULL, copier_main, pool);
    if (rc != 0) {
        amb_inbox_fini(&pool->inbox);
        (void)snprintf(error, error_size, "memory.cuda: no thread for the copier: %s",
                       strerror(rc));
        return amb_status_from_errno(rc);
    }
    pool->is_running = true;
    return AMB_OK;
}

size_t amb_gpus_addresses(const struct amb_config *config, const char **out, size_t max)
{
    const struct amb_config_strings *names = &config->memory.cuda.devices;
    size_t found = 0;
    if (config->memory.cuda.size == 0 || amb_cuda_start() != AMB_OK) {
        return 0; /* amb_gpus_start says why. */
    }
    size_t count = names->count == 0 ? amb_cuda_count() : names->count;
    for (size_t i = 0; i < count && found < max; i++) {
        char index[24];
        (void)snprintf(index, sizeof(index), "%zu", i);
        const struct amb_cuda *cuda = amb_cuda_seen(names->count == 0 ? index : names->items[i]);
        if (cuda != NULL) {
            out[found++] = amb_cuda_info(cuda)->pci;
        }
    }
    return found;
}

enum amb_status amb_gpus_start(struct amb_gpus *gpus, const struct amb_config *config, char *error,
                               size_t error_size)
{
    gpus->why_not = "the broker has no GPU memory (memory.cuda.size)";
    if (config->memory.cuda.size == 0) {
        return AMB_OK;
    }
    enum amb_status status = amb_cuda_start();
    if (status != AMB_OK) {
        (void)snprintf(error, error_size, "memory.cuda.size: %s", amb_cuda_why_not());
        return status;
    }
    status = pools_init(gpus, config, error, error_size);
    if (status != AMB_OK) {
        return status;
    }
    for (uint32_t i = 0; i < gpus->count && status == AMB_OK; i++) {
        status = copier_start(&gpus->pools[i], error, error_size);
    }
    if (status != AMB_OK) {
        (void)amb_gpus_stop(gpus);
        return status;
    }
    gpus->why_not = "the broker has no memory on that GPU (memory.cuda.devices)";
    return AMB_OK;
}

void amb_gpus_fini(struct amb_gpus *gpus)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        struct amb_gpu_pool *pool = &gpus->pools[i];
        struct amb_cuda_scope scope;
        amb_assert(!pool->is_running);
        amb_gather_destroy(&pool->gather);
        bool is_kept = !amb_gpu_pool_is_made(pool) ||
                       atomic_load_explicit(&pool->is_given, memory_order_relaxed);
        if (!is_kept && amb_cuda_enter(pool->cuda, &scope) == AMB_OK) {
            amb_cuda_free(pool->cuda, pool->base);
            amb_cuda_leave(&scope);
        }
        free(pool->taken);
        (void)pthread_mutex_destroy(&pool->lock);
    }
    free(gpus->pools);
    gpus->pools = NULL;
    gpus->count = 0;
}
