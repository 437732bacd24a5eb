/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: stream-ordered memory and its pools.
 *
 *   cuMemAllocAsync ─► there, when its stream has come to it ─► cuMemFreeAsync ─► back, in the same
 * way
 *
 * Nothing waits for a device here. A pool keeps freed blocks, which stay charged, until somebody
 * waits for a stream, an event or the device. The pool's threshold may keep them for longer. The
 * stream of a free gets the block again at once, and others when it is back. A touch that is not
 * between the two points is an illegal address, on whichever stream.
 *
 * Blocks have no handle of cuIpcGetMemHandle's, whatever the pool was made for.
 */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>
#include <string.h>

void fake_pools_init(void)
{
    for (int i = 0; i < fake.devices; i++) {
        struct CUmemPoolHandle_st *pool = &fake.default_pools[i];
        pool->device = i;
        pool->access[i] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        fake.current_pools[i] = pool;
    }
}

static bool is_known(const struct CUmemPoolHandle_st *pool)
{
    for (int i = 0; i < fake.devices; i++) {
        if (pool == &fake.default_pools[i]) {
            return true;
        }
    }
    const struct CUmemPoolHandle_st *at = fake.pools;
    while (at != NULL && at != pool) {
        at = at->next;
    }
    return at != NULL && !at->is_gone;
}

struct fake_memory *fake_find_idle(uintptr_t address)
{
    struct fake_memory *memory = fake.idle;
    while (memory != NULL && (address < memory->base || address - memory->base >= memory->size)) {
        memory = memory->next;
    }
    return memory;
}

bool fake_pool_reaches(const struct fake_memory *memory, int device)
{
    return memory->pool == NULL || memory->pool->access[device] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

static void move(struct fake_memory *memory, struct fake_memory **from, struct fake_memory **to)
{
    while (*from != memory) {
        from = &(*from)->next;
    }
    *from = memory->next;
    memory->next = *to;
    *to = memory;
}

static void trim(const struct CUmemPoolHandle_st *pool, uint64_t kept_max)
{
    uint64_t kept = 0;
    for (struct fake_memory *memory = fake.idle, *next; memory != NULL; memory = next) {
        next = memory->next;
        if (memory->pool != pool || !memory->is_back || fake_is_touched(memory)) {
            continue;
        }
        kept += memory->size;
        if (kept > kept_max) {
            kept -= memory->size;
            move(memory, &fake.idle, &fake.memories);
            fake_remove(memory);
        }
    }
}

void fake_pools_trim(bool is_all)
{
    for (int i = 0; i < fake.devices; i++) {
        trim(&fake.default_pools[i], is_all ? 0 : fake.default_pools[i].threshold);
    }
    for (const struct CUmemPoolHandle_st *pool = fake.pools; pool != NULL; pool = pool->next) {
        trim(pool, is_all || pool->is_gone ? 0 : pool->threshold);
    }
}

static uint64_t used_of(const struct CUmemPoolHandle_st *pool, const struct fake_memory *list)
{
    uint64_t used = 0;
    for (const struct fake_memory *memory = list; memory != NULL; memory = memory->next) {
        used += memory->pool == pool ? memory->size : 0;
    }
    return used;
}

/* ---- allocating ---- */

/* A block that is idle and just as large. */
static struct fake_memory *reuse(const struct CUmemPoolHandle_st *pool, size_t size,
                                 const struct CUstream_st *stream)
{
    struct fake_memory *memory = fake.idle;
    while (memory != NULL && (memory->pool != pool || memory->size != size ||
                              (!memory->is_back && memory->freed_on != stream))) {
        memory = memory->next;
    }
    if (memory != NULL) {
        move(memory, &fake.idle, &fake.memories);
    }
    return memory;
}

static CUresult allocate(CUdeviceptr *out, size_t size, struct CUmemPoolHandle_st *pool,
                         CUstream stream)
{
    bool is_captured;
    CUresult result = fake_captured(fake_stream(stream), &is_captured);
    if (result == CUDA_SUCCESS && is_captured) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* There are no graphs here. */
    }
    if (result == CUDA_SUCCESS && pool->size_max != 0 &&
        size > pool->size_max - used_of(pool, fake.memories)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct fake_memory *memory = reuse(pool, size, fake_stream(stream));
    if (memory == NULL) {
        result = fake_allocate(FAKE_POOL, size, &memory);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    memory->pool = pool;
    memory->life++;
    memory->is_there = memory->is_back = false;
    memory->freed_on = NULL;
    struct fake_op op = {.what = FAKE_ALLOC, .blocks = {memory}, .lives = {memory->life}};
    result = fake_push(stream, &op);
    *out = memory->base;
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        result = allocate(out, size, fake.current_pools[fake_current()->device], stream);
    }
    return fake_leave(result);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        result = is_known(pool) && pool->device == fake_current()->device
                     ? allocate(out, size, pool, stream)
                     : CUDA_ERROR_INVALID_VALUE;
    }
    return fake_leave(result);
}

CUresult fake_pool_free(struct fake_memory *memory, struct CUstream_st *stream)
{
    struct fake_op op = {.what = FAKE_RELEASE, .blocks = {memory}, .lives = {memory->life}};
    CUresult result = stream != NULL ? fake_push(stream, &op) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        memory->freed_on = stream;
        memory->is_back = stream == NULL;
        move(memory, &fake.memories, &fake.idle);
    }
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    CUresult result = fake_enter(__func__, true);
    struct fake_memory *memory = result == CUDA_SUCCESS ? fake_find(address) : NULL;
    bool is_captured = false;
    if (result == CUDA_SUCCESS) {
        result = fake_captured(fake_stream(stream), &is_captured);
    }
    if (result != CUDA_SUCCESS) {
        return fake_leave(result);
    }
    if (memory == NULL || memory->base != address || is_captured) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (memory->kind == FAKE_POOL) {
        result = fake_pool_free(memory, fake_stream(stream));
    } else if (memory->kind == FAKE_DEVICE) {
        fake_drain(stream); /* Plain memory may be freed so, too; the stream is all it waits for. */
        fake_remove(memory);
    } else {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return fake_leave(result);
}

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
                                   props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
                                   props->location.id < 0 || props->location.id >= fake.devices)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    struct CUmemPoolHandle_st *pool = result == CUDA_SUCCESS ? calloc(1, sizeof(*pool)) : NULL;
    if (pool != NULL) {
        pool->device = props->location.id;
        pool->size_max = props->maxSize;
        pool->handle_types = props->handleTypes;
        pool->access[pool->device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        pool->next = fake.pools;
        fake.pools = pool;
        *out = pool;
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return fake_leave(result);
}

/* Its last blocks stay usable; its record is kept for ever. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && (!is_known(pool) || pool == &fake.default_pools[pool->device])) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        pool->is_gone = true;
        if (fake.current_pools[pool->device] == pool) {
            fake.current_pools[pool->device] = &fake.default_pools[pool->device];
        }
        fake_pools_trim(false);
    }
    return fake_leave(result);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t kept_max)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && !is_known(pool)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        trim(pool, kept_max);
    }
    return fake_leave(result);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute name, void *value)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && !is_known(pool)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && name == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        memcpy(&pool->threshold, value, sizeof(pool->threshold));
    } else if (result == CUDA_SUCCESS && name >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        result = CUDA_ERROR_NOT_SUPPORTED;
    } /* Else one of the ways of reuse, of which there is one here. */
    return fake_leave(result);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute name, void *value)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && !is_known(pool)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        uint64_t used = used_of(pool, fake.memories), kept = used_of(pool, fake.idle);
        uint64_t answer = name == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD      ? pool->threshold
                          : name == CU_MEMPOOL_ATTR_USED_MEM_CURRENT     ? used
                          : name == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? used + kept
                                                                         : UINT64_MAX;
        result = answer != UINT64_MAX ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
        memcpy(value, &answer, result == CUDA_SUCCESS ? sizeof(answer) : 0);
    }
    return fake_leave(result);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && !is_known(pool)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        int device = map[i].location.id;
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || device < 0 ||
            device >= fake.devices) {
            result = CUDA_ERROR_INVALID_DEVICE;
        } else if (device == pool->device && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            result = CUDA_ERROR_INVALID_VALUE; /* Its own device keeps it. */
        } else if (device != pool->device && !fake.has_peers) {
            result = CUDA_ERROR_INVALID_DEVICE;
        } else {
            pool->access[device] = (uint8_t)map[i].flags;
        }
    }
    return fake_leave(result);
}

static CUresult device_pool(const char *call, CUmemoryPool *out, CUdevice device, bool is_current)
{
    CUresult result = fake_enter(call, false);
    if (result == CUDA_SUCCESS && (device < 0 || device >= fake.devices)) {
        result = CUDA_ERROR_INVALID_DEVICE;
    }
    if (result == CUDA_SUCCESS) {
        *out = is_current ? fake.current_pools[device] : &fake.default_pools[device];
    }
    return fake_leave(result);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    return device_pool(__func__, out, device, false);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    return device_pool(__func__, out, device, true);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && (!is_known(pool) || pool->device != device)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        fake.current_pools[device] = pool;
    }
    return fake_leave(result);
}
