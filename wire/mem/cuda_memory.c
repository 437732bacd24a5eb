/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device, what pointers point to, and the ways between processes.
 */
#include "wire/base/assert.h"
#include "wire/mem/cuda_device.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Nothing is asked of a driver whose context is lost: it would only say so again. */
#define CALL(device, call, ...)                                                                    \
    (amb_cuda_is_sound(device) ? amb_cuda_check((device), amb_cuda_api.call(__VA_ARGS__), #call)   \
                               : AMB_ECUDA)

enum amb_status amb_cuda_alloc(struct amb_cuda *device, uint64_t size, uint64_t *out)
{
    amb_assert(amb_cuda_is_current(device) && size != 0);
    CUdeviceptr address = 0;
    enum amb_status status = CALL(device, cuMemAlloc, &address, size);
    if (status == AMB_OK) {
        *out = address;
    }
    return status;
}

enum amb_status amb_cuda_alloc_managed(struct amb_cuda *device, uint64_t size, uint64_t *out)
{
    amb_assert(amb_cuda_is_current(device) && size != 0);
    CUdeviceptr address = 0;
    enum amb_status status = CALL(device, cuMemAllocManaged, &address, size, CU_MEM_ATTACH_GLOBAL);
    if (status == AMB_OK) {
        *out = address;
    }
    return status;
}

void amb_cuda_free(struct amb_cuda *device, uint64_t address)
{
    if (address != 0) {
        amb_assert(amb_cuda_is_current(device));
        (void)CALL(device, cuMemFree, address);
    }
}

enum amb_status amb_cuda_pin(struct amb_cuda *device, uint64_t size, void **out)
{
    amb_assert(amb_cuda_is_current(device) && size != 0);
    void *memory = NULL;
    enum amb_status status = CALL(device, cuMemHostAlloc, &memory, size, CU_MEMHOSTALLOC_PORTABLE);
    if (status == AMB_OK) {
        *out = memory;
    }
    return status;
}

void amb_cuda_unpin(struct amb_cuda *device, void *memory)
{
    if (memory != NULL) {
        amb_assert(amb_cuda_is_current(device));
        (void)CALL(device, cuMemFreeHost, memory);
    }
}

enum amb_status amb_cuda_register(struct amb_cuda *device, void *memory, uint64_t size,
                                  uint64_t *address)
{
    amb_assert(amb_cuda_is_current(device) && memory != NULL && size != 0);
    CUdeviceptr at = 0;
    enum amb_status status = CALL(device, cuMemHostRegister, memory, size,
                                  CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (status != AMB_OK) {
        return status;
    }
    status = CALL(device, cuMemHostGetDevicePointer, &at, memory, 0);
    if (status != AMB_OK) {
        amb_cuda_unregister(device, memory);
        return status;
    }
    *address = at;
    return AMB_OK;
}

void amb_cuda_unregister(struct amb_cuda *device, void *memory)
{
    amb_assert(amb_cuda_is_current(device));
    (void)CALL(device, cuMemHostUnregister, memory);
}

/* ---- pointers ---- */

/* Would reading it here be a crash? Asked of the kernel, where the driver does not say. */
static bool is_unreadable(const void *pointer)
{
    char byte;
    struct iovec to = {.iov_base = &byte, .iov_len = 1};
    struct iovec from = {.iov_base = (void *)(uintptr_t)pointer, .iov_len = 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1;
}

struct attributes {
    unsigned type, is_managed, can_export;
    int device;
    CUdeviceptr base;
    size_t size;
    CUmemoryPool pool;
};

#define LOCATE_COUNT 5u /* of the attributes below: those of amb_cuda_locate */

static CUresult ask_attributes(const void *pointer, bool is_quick, struct attributes *out)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    };
    void *values[] = {&out->type, &out->is_managed, &out->device, &out->base,
                      &out->size, &out->can_export, &out->pool};
    unsigned count = is_quick ? LOCATE_COUNT : sizeof(names) / sizeof(names[0]);
    return amb_cuda_api.cuPointerGetAttributes(count, names, values,
                                               (CUdeviceptr)(uintptr_t)pointer);
}

/* Does the driver say by that answer that it does not know the memory, or that nobody has
 * initialised it? */
static bool is_answer(CUresult result)
{
    return result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_INITIALIZED ||
           result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT;
}

static void place_from(const struct attributes *a, struct amb_mem_place *out)
{
    if (a->type == 0) {
        return;
    }
    if (a->type == CU_MEMORYTYPE_HOST && a->is_managed == 0) {
        out->mem = AMB_MEM_PINNED;
        return;
    }
    out->mem = a->is_managed != 0 ? AMB_MEM_CUDA_MANAGED : AMB_MEM_CUDA;
    out->device = a->device;
    out->base = a->base;
    out->size = a->size;
}

static const char *why_not_exportable(const struct attributes *a)
{
    if (a->is_managed != 0) {
        return "managed memory";
    }
    if (a->pool != NULL) {
        return "memory of a stream-ordered pool (cudaMallocAsync)";
    }
    return a->can_export != 0 ? "" : "memory of the virtual memory calls (cuMemCreate)";
}

static const struct amb_mem_place host_memory = {
    .mem = AMB_MEM_HOST, .device = -1, .why_not = "host memory"};

void amb_cuda_classify(const void *pointer, struct amb_mem_place *out)
{
    struct attributes a = {.device = -1};
    *out = host_memory;
    if (amb_cuda_is_live() && ask_attributes(pointer, false, &a) == CUDA_SUCCESS) {
        place_from(&a, out);
    }
    if (out->device >= 0) {
        out->why_not = why_not_exportable(&a);
        out->is_exportable = out->why_not[0] == '\0';
    }
}

void amb_cuda_locate(const void *pointer, struct amb_mem_place *out)
{
    struct attributes a = {.device = -1};
    *out = host_memory;
    if (!amb_cuda_is_live()) {
        return;
    }
    CUresult result = ask_attributes(pointer, true, &a);
    if (result == CUDA_SUCCESS) {
        place_from(&a, out);
    } else if (!is_answer(result)) {
        out->is_unknown = true;
        out->mem = is_unreadable(pointer) ? AMB_MEM_CUDA : AMB_MEM_HOST;
    }
}

/* ---- other processes ---- */

_Static_assert(sizeof(CUipcMemHandle) == AMB_CUDA_IPC_BYTES, "what travels between processes");

/* Namespaces, containers and drivers that do not let it all answer in their own way. */
static enum amb_status refused(struct amb_cuda *device, enum amb_status status)
{
    return status == AMB_ECUDA && amb_cuda_is_sound(device) ? AMB_ENOTSUP : status;
}

enum amb_status amb_cuda_export(struct amb_cuda *device, uint64_t address,
                                uint8_t handle[AMB_CUDA_IPC_BYTES])
{
    amb_assert(amb_cuda_is_current(device));
    CUipcMemHandle own;
    enum amb_status status = CALL(device, cuIpcGetMemHandle, &own, address);
    if (status == AMB_OK) {
        memcpy(handle, &own, sizeof(own));
    }
    return refused(device, status);
}

enum amb_status amb_cuda_import(struct amb_cuda *device, const uint8_t handle[AMB_CUDA_IPC_BYTES],
                                uint64_t *out)
{
    amb_assert(amb_cuda_is_current(device));
    CUipcMemHandle own;
    memcpy(&own, handle, sizeof(own));
    CUdeviceptr address = 0;
    enum amb_status status =
        CALL(device, cuIpcOpenMemHandle, &address, own, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (status == AMB_OK) {
        *out = address;
    }
    return refused(device, status);
}

enum amb_status amb_cuda_unimport(struct amb_cuda *device, uint64_t address)
{
    amb_assert(amb_cuda_is_current(device));
    return address != 0 ? CALL(device, cuIpcCloseMemHandle, address) : AMB_OK;
}
