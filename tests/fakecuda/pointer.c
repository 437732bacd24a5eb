/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: what pointers are.
 *
 * For memory of the virtual memory calls the range is all of the reservation, and the rest is of
 * the mapping there. Memory of pools and of these calls belongs to no context. Where devices reach
 * pageable memory (FAKECUDA_PAGEABLE), a pointer to it is a known one, of no kind.
 */
#include "tests/fakecuda/internal.h"

#include <string.h>

/* The answers about a pointer, in the driver's own types. */
struct answers {
    unsigned type, is_managed, can_export, is_mapped;
    int device;
    CUdeviceptr base;
    size_t size;
    CUmemoryPool pool;
    unsigned long long id, handles;
    CUcontext context;
    void *host;
};

/* Values of pointers that the driver does not know are 0, the device is -2. */
static struct answers describe(CUdeviceptr pointer)
{
    struct answers out = {.device = -2};
    const struct fake_memory *memory = fake_find(pointer);
    struct fake_memory mapping;
    if (memory == NULL) {
        return out;
    }
    out.base = memory->base;
    out.size = memory->size;
    if (memory->kind == FAKE_RESERVED) {
        if (!fake_virtual_mapping(memory, pointer, &mapping)) {
            return out;
        }
        memory = &mapping;
    }
    bool is_host = fake_is_page_locked(memory->kind);
    out.type = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    out.is_managed = memory->kind == FAKE_MANAGED;
    out.can_export = memory->kind == FAKE_DEVICE;
    out.is_mapped = 1;
    out.device = memory->device;
    out.pool = memory->pool;
    out.handles = memory->pool != NULL ? memory->pool->handle_types : 0;
    out.id = memory->inode;
    out.context = memory->kind == FAKE_POOL || memory->kind == FAKE_RESERVED
                      ? NULL
                      : &fake.contexts[memory->device];
    out.host = is_host || out.is_managed != 0 ? (void *)(uintptr_t)pointer : NULL;
    return out;
}

#define ANSWER(name, field)                                                                        \
    case name:                                                                                     \
        memcpy(to, &(field), sizeof(field));                                                       \
        break

static CUresult attribute(void *to, CUpointer_attribute name, CUdeviceptr pointer)
{
    const struct answers of = describe(pointer);
    switch ((int)name) {
        ANSWER(CU_POINTER_ATTRIBUTE_CONTEXT, of.context);
        ANSWER(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, of.handles);
        ANSWER(CU_POINTER_ATTRIBUTE_BUFFER_ID, of.id);
        ANSWER(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, of.type);
        ANSWER(CU_POINTER_ATTRIBUTE_IS_MANAGED, of.is_managed);
        ANSWER(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, of.can_export);
        ANSWER(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, of.device);
        ANSWER(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, of.base);
        ANSWER(CU_POINTER_ATTRIBUTE_RANGE_SIZE, of.size);
        ANSWER(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, of.pool);
        ANSWER(CU_POINTER_ATTRIBUTE_MAPPED, of.is_mapped);
        ANSWER(CU_POINTER_ATTRIBUTE_HOST_POINTER, of.host);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute name, CUdeviceptr pointer)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        bool is_known = fake_find(pointer) != NULL || (fake.is_pageable && pointer != 0);
        result = is_known ? attribute(data, name, pointer) : CUDA_ERROR_INVALID_VALUE;
    }
    return fake_leave(result);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *names, void **data,
                                CUdeviceptr pointer)
{
    CUresult result = fake_enter(__func__, false);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = attribute(data[i], names[i], pointer);
    }
    return fake_leave(result);
}
