/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: memory of the virtual memory calls.
 *
 *   cuMemAddressReserve: addresses ─┬─ cuMemMap ── cuMemCreate: memory, by a handle
 *                                   ├─ cuMemMap ── another, just behind
 *                                   └─ nothing yet
 *   cuMemSetAccess: which devices may reach a mapping; none at first
 *
 * The addresses have a hidden alias of the same layout, so that a copy over several mappings is one
 * copy here, too. Memory is charged until its handle is released and its last mapping is gone.
 * cuMemUnmap waits for nothing: work on a stream that comes to such addresses later is an illegal
 * address.
 */
#include "tests/fakecuda/internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

struct fake_physical {
    struct fake_physical *next;
    struct fake_memory memory; /* with no address */
    unsigned handles, mappings;
    CUmemAllocationProp props;
};

struct fake_mapping {
    struct fake_mapping *next;
    struct fake_physical *physical;
    size_t offset, size;              /* in the reservation */
    uint8_t access[FAKE_DEVICES_MAX]; /* CUmemAccess_flags */
};

static bool is_granular(size_t value)
{
    return value % GRANULE == 0;
}

/* ---- memory by handle ---- */

static struct fake_physical *of_handle(CUmemGenericAllocationHandle handle)
{
    struct fake_physical *at = fake.physicals;
    while (at != NULL && (uintptr_t)at != (uintptr_t)handle) {
        at = at->next;
    }
    return at;
}

static void drop_if_unused(struct fake_physical *physical)
{
    if (physical->handles != 0 || physical->mappings != 0) {
        return;
    }
    struct fake_physical **link = &fake.physicals;
    while (*link != physical) {
        link = &(*link)->next;
    }
    *link = physical->next;
    fake.memory_used[physical->memory.device] -= physical->memory.size;
    fake_machine_let_go(&physical->memory);
    (void)close(physical->memory.fd);
    free(physical);
}

static CUresult check_props(const CUmemAllocationProp *props)
{
    if (props->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (props->location.id < 0 || props->location.id >= fake.devices) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    return props->requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED
                                                                    : CUDA_SUCCESS;
}

static CUresult create(size_t size, const CUmemAllocationProp *props, struct fake_physical **out)
{
    int device = props->location.id;
    struct fake_physical *physical = calloc(1, sizeof(*physical));
    struct stat stat;
    int fd = memfd_create("fakecuda", MFD_CLOEXEC);
    if (physical == NULL || fd < 0 || ftruncate(fd, (off_t)size) != 0 || fstat(fd, &stat) != 0 ||
        !fake_has_room(device, size)) {
        (void)(fd >= 0 ? close(fd) : 0);
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->memory = (struct fake_memory){
        .kind = FAKE_DEVICE, .device = device, .size = size, .fd = fd, .inode = stat.st_ino};
    physical->handles = 1;
    physical->props = *props;
    physical->next = fake.physicals;
    fake.physicals = physical;
    fake.memory_used[device] += size;
    fake_machine_hold(&physical->memory);
    *out = physical;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                     const CUmemAllocationProp *props, unsigned long long flags)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_physical *physical = NULL;
    if (result == CUDA_SUCCESS) {
        result = size == 0 || !is_granular(size) || flags != 0 ? CUDA_ERROR_INVALID_VALUE
                                                               : check_props(props);
    }
    if (result == CUDA_SUCCESS) {
        result = create(size, props, &physical);
    }
    if (result == CUDA_SUCCESS) {
        *out = (uintptr_t)physical;
    }
    return fake_leave(result);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_physical *physical = result == CUDA_SUCCESS ? of_handle(handle) : NULL;
    if (result == CUDA_SUCCESS && (physical == NULL || physical->handles == 0)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        physical->handles--;
        drop_if_unused(physical);
    }
    return fake_leave(result);
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *props,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult result = fake_enter(__func__, false);
    (void)option;
    result = result == CUDA_SUCCESS ? check_props(props) : result;
    if (result == CUDA_SUCCESS) {
        *out = GRANULE;
    }
    return fake_leave(result);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *props,
                                                CUmemGenericAllocationHandle handle)
{
    CUresult result = fake_enter(__func__, false);
    const struct fake_physical *physical = result == CUDA_SUCCESS ? of_handle(handle) : NULL;
    if (physical != NULL) {
        *props = physical->props;
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return fake_leave(result);
}

/* ---- addresses ---- */

static struct fake_mapping *mapping_at(const struct fake_memory *range, size_t offset)
{
    struct fake_mapping *at = range->mappings;
    while (at != NULL && (offset < at->offset || offset - at->offset >= at->size)) {
        at = at->next;
    }
    return at;
}

static void *reserve(size_t size)
{
    /* More than asked for, since the driver's addresses are whole granules. */
    uint8_t *all =
        mmap(NULL, size + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        return NULL;
    }
    size_t before = (GRANULE - (uintptr_t)all % GRANULE) % GRANULE;
    if (before != 0) {
        (void)munmap(all, before);
    }
    (void)munmap(all + before + size, GRANULE - before);
    return all + before;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    CUresult result = fake_enter(__func__, false);
    (void)wish; /* A hint. */
    struct fake_memory *range = NULL;
    if (result == CUDA_SUCCESS && (size == 0 || !is_granular(size) || flags != 0 ||
                                   (alignment & (alignment - 1)) != 0 || alignment > GRANULE)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        range = calloc(1, sizeof(*range));
        void *shown = range != NULL ? reserve(size) : NULL;
        void *alias = shown != NULL ? reserve(size) : NULL;
        result = alias != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            *range = (struct fake_memory){.next = fake.memories,
                                          .kind = FAKE_RESERVED,
                                          .base = (uintptr_t)shown,
                                          .size = size,
                                          .alias = alias,
                                          .fd = -1};
            fake.memories = range;
            *out = range->base;
        } else {
            free(range);
        }
    }
    return fake_leave(result);
}

/* The reservation that all of an address range lies in. */
static struct fake_memory *range_of(CUdeviceptr address, size_t size)
{
    struct fake_memory *range = fake_find(address);
    bool is_whole = range != NULL && range->kind == FAKE_RESERVED && size != 0 &&
                    size <= range->size - (address - range->base);
    return is_whole ? range : NULL;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_memory *range = result == CUDA_SUCCESS ? range_of(address, size) : NULL;
    if (result == CUDA_SUCCESS && (range == NULL || range->base != address || range->size != size ||
                                   range->mappings != NULL)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        fake_remove(range);
    }
    return fake_leave(result);
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_physical *physical = result == CUDA_SUCCESS ? of_handle(handle) : NULL;
    struct fake_memory *range = result == CUDA_SUCCESS ? range_of(address, size) : NULL;
    if (result == CUDA_SUCCESS &&
        (physical == NULL || range == NULL || offset != 0 || flags != 0 || !is_granular(size) ||
         !is_granular(address) || size > physical->memory.size)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t at = 0; result == CUDA_SUCCESS && at < size; at += GRANULE) {
        result = mapping_at(range, address - range->base + at) == NULL ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
    }
    struct fake_mapping *mapping = result == CUDA_SUCCESS ? calloc(1, sizeof(*mapping)) : NULL;
    if (mapping != NULL) {
        *mapping = (struct fake_mapping){.next = range->mappings,
                                         .physical = physical,
                                         .offset = address - range->base,
                                         .size = size};
        range->mappings = mapping;
        physical->mappings++;
        void *to = range->alias + mapping->offset;
        if (mmap(to, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->memory.fd,
                 0) != to) {
            abort();
        }
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return fake_leave(result);
}

/* Whole mappings that cover the range? */
static bool is_of_whole_mappings(const struct fake_memory *range, size_t offset, size_t size)
{
    size_t at = offset;
    while (at < offset + size) {
        const struct fake_mapping *mapping = mapping_at(range, at);
        if (mapping == NULL || mapping->offset != at || at + mapping->size > offset + size) {
            return false;
        }
        at += mapping->size;
    }
    return true;
}

static void remove_mapping(struct fake_memory *range, struct fake_mapping *mapping)
{
    struct fake_mapping **link = &range->mappings;
    while (*link != mapping) {
        link = &(*link)->next;
    }
    *link = mapping->next;
    uint8_t *at = range->alias + mapping->offset;
    fake_spoil(at, mapping->size);
    if (mmap(at, mapping->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0) != at) {
        abort();
    }
    mapping->physical->mappings--;
    drop_if_unused(mapping->physical);
    free(mapping);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_memory *range = result == CUDA_SUCCESS ? range_of(address, size) : NULL;
    if (result == CUDA_SUCCESS &&
        (range == NULL || !is_of_whole_mappings(range, address - range->base, size))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    size_t offset = result == CUDA_SUCCESS ? address - range->base : 0, end = offset + size;
    while (result == CUDA_SUCCESS && offset < end) {
        struct fake_mapping *mapping = mapping_at(range, offset);
        offset += mapping->size;
        remove_mapping(range, mapping);
    }
    return fake_leave(result);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *map, size_t count)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_memory *range = result == CUDA_SUCCESS ? range_of(address, size) : NULL;
    if (result == CUDA_SUCCESS &&
        (range == NULL || !is_of_whole_mappings(range, address - range->base, size))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        int device = map[i].location.id;
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || device < 0 ||
            device >= fake.devices) {
            result = CUDA_ERROR_INVALID_DEVICE;
            break;
        }
        for (size_t at = address - range->base; at < address - range->base + size;) {
            struct fake_mapping *mapping = mapping_at(range, at);
            if (mapping->physical->memory.device != device && !fake.has_peers) {
                result = CUDA_ERROR_INVALID_DEVICE;
            } else {
                mapping->access[device] = (uint8_t)map[i].flags;
            }
            at += mapping->size;
        }
    }
    return fake_leave(result);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, false);
    const struct fake_memory *range = result == CUDA_SUCCESS ? range_of(address, 1) : NULL;
    const struct fake_mapping *mapping =
        range != NULL ? mapping_at(range, address - range->base) : NULL;
    if (result == CUDA_SUCCESS &&
        (mapping == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 ||
         location->id >= fake.devices)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *flags = mapping->access[location->id];
    }
    return fake_leave(result);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    CUresult result = fake_enter(__func__, false);
    struct fake_memory *range = result == CUDA_SUCCESS ? range_of((uintptr_t)address, 1) : NULL;
    struct fake_mapping *mapping =
        range != NULL ? mapping_at(range, (uintptr_t)address - range->base) : NULL;
    if (result == CUDA_SUCCESS && mapping == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        mapping->physical->handles++;
        *out = (uintptr_t)mapping->physical;
    }
    return fake_leave(result);
}

/* ---- for the other files ---- */

bool fake_virtual_reaches(const struct fake_memory *range, size_t offset, size_t len,
                          struct fake_reach reach)
{
    size_t end = offset + len;
    while (offset < end) {
        const struct fake_mapping *mapping = mapping_at(range, offset);
        if (mapping == NULL) {
            return false;
        }
        uint8_t access =
            reach.device >= 0 ? mapping->access[reach.device] : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
            (reach.is_write && access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
            return false;
        }
        offset = mapping->offset + mapping->size;
    }
    return true;
}

bool fake_virtual_mapping(const struct fake_memory *range, uintptr_t address,
                          struct fake_memory *out)
{
    const struct fake_mapping *mapping = mapping_at(range, address - range->base);
    if (mapping == NULL) {
        return false;
    }
    *out = (struct fake_memory){.kind = FAKE_RESERVED,
                                .device = mapping->physical->memory.device,
                                .base = range->base + mapping->offset,
                                .size = mapping->size,
                                .inode = mapping->physical->memory.inode};
    return true;
}

unsigned fake_virtual_live(void)
{
    unsigned count = 0;
    for (const struct fake_physical *at = fake.physicals; at != NULL; at = at->next) {
        count++;
    }
    return count;
}
