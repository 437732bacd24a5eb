/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: memory, and the ways between processes.
 */
#include "tests/fakecuda/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define HANDLE_MAGIC UINT64_C(0x66616b6563756461)

/* The content of our IPC handles. */
struct fake_handle {
    uint64_t magic, size;
    ino_t inode;
    int pid, fd, device, instance;
};
_Static_assert(sizeof(struct fake_handle) <= sizeof(CUipcMemHandle), "a handle fits");

struct fake_memory *fake_find(uintptr_t address)
{
    struct fake_memory *memory = fake.memories;
    while (memory != NULL && (address < memory->base || address - memory->base >= memory->size)) {
        memory = memory->next;
    }
    return memory;
}

static bool reaches(const struct fake_memory *memory, size_t offset, size_t len,
                    struct fake_reach reach)
{
    if (memory->kind == FAKE_RESERVED) {
        return fake_virtual_reaches(memory, offset, len, reach);
    }
    return memory->pool == NULL || reach.device < 0 || fake_pool_reaches(memory, reach.device);
}

unsigned char *fake_resolve(uintptr_t address, size_t len, struct fake_reach reach, bool *is_async)
{
    struct fake_memory *memory = fake_find(address);
    if (memory == NULL && fake_find_idle(address) == NULL) {
        *is_async = false;
        return (unsigned char *)address;
    }
    if (memory == NULL || len > memory->size - (address - memory->base) ||
        !reaches(memory, address - memory->base, len, reach)) {
        return NULL;
    }
    return memory->alias + (address - memory->base);
}

static size_t whole_pages(size_t size)
{
    return (size + PAGE - 1) & ~(PAGE - 1);
}

/* The two mappings of a memfd; false: no memory. */
static bool map_device(struct fake_memory *memory)
{
    size_t len = whole_pages(memory->size);
    void *shown = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *alias = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    memory->base = shown != MAP_FAILED ? (uintptr_t)shown : 0;
    memory->alias = alias != MAP_FAILED ? alias : NULL;
    return memory->base != 0 && memory->alias != NULL;
}

static bool map_host(struct fake_memory *memory)
{
    void *shown = mmap(NULL, whole_pages(memory->size), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shown == MAP_FAILED) {
        return false;
    }
    memory->base = (uintptr_t)shown;
    memory->alias = shown;
    return true;
}

bool fake_is_page_locked(enum fake_kind kind)
{
    return kind == FAKE_PINNED || kind == FAKE_REGISTERED;
}

static bool is_host_readable(enum fake_kind kind)
{
    return kind == FAKE_MANAGED || fake_is_page_locked(kind);
}

static void unmap(struct fake_memory *memory)
{
    size_t len = whole_pages(memory->size);
    if (memory->base != 0 && memory->kind != FAKE_REGISTERED) {
        (void)munmap((void *)memory->base, len);
    }
    if (memory->alias != NULL && !is_host_readable(memory->kind)) {
        (void)munmap(memory->alias, len);
    }
    if (memory->fd >= 0) {
        (void)close(memory->fd);
    }
    free(memory);
}

/* Does it take memory of a device? */
static bool is_charged(enum fake_kind kind)
{
    return !fake_is_page_locked(kind) && kind != FAKE_IMPORTED && kind != FAKE_RESERVED;
}

/* fd: of another process's memory; -1: new memory. */
struct fake_memory *fake_add(enum fake_kind kind, int device, size_t size, int fd)
{
    struct fake_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return NULL;
    }
    memory->kind = kind;
    memory->device = device;
    memory->size = size;
    memory->fd = fd;
    bool is_mapped;
    if (is_host_readable(kind)) {
        is_mapped = map_host(memory);
    } else {
        if (fd < 0) {
            memory->fd = memfd_create("fakecuda", MFD_CLOEXEC);
        }
        struct stat stat;
        is_mapped = memory->fd >= 0 &&
                    (fd >= 0 || ftruncate(memory->fd, (off_t)whole_pages(size)) == 0) &&
                    fstat(memory->fd, &stat) == 0 && map_device(memory);
        memory->inode = is_mapped ? stat.st_ino : 0;
    }
    if (!is_mapped) {
        unmap(memory);
        return NULL;
    }
    if (is_charged(kind)) {
        fake.memory_used[device] += size;
        fake_machine_hold(memory);
    }
    memory->next = fake.memories;
    fake.memories = memory;
    return memory;
}

void fake_remove(struct fake_memory *memory)
{
    struct fake_memory **link = &fake.memories;
    while (*link != memory) {
        link = &(*link)->next;
    }
    *link = memory->next;
    if (is_charged(memory->kind)) {
        fake.memory_used[memory->device] -= memory->size;
    }
    if (!fake_is_page_locked(memory->kind) && memory->kind != FAKE_RESERVED) {
        fake_machine_let_go(memory);
    }
    unmap(memory);
}

/* ---- allocating ---- */

static size_t free_bytes_of(int device)
{
    size_t used = fake_machine_used(device);
    return used < fake.memory_max ? fake.memory_max - used : 0;
}

bool fake_has_room(int device, size_t size)
{
    if (size > free_bytes_of(device)) {
        fake_pools_trim(true); /* As the driver, which asks the pools of the process. */
    }
    return size <= free_bytes_of(device);
}

CUresult fake_allocate(enum fake_kind kind, size_t size, struct fake_memory **out)
{
    int device = fake_current()->device;
    if (size == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (kind != FAKE_PINNED && !fake_has_room(device, size)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = fake_add(kind, device, size, -1);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate_device(const char *call, enum fake_kind kind, CUdeviceptr *out,
                                size_t size)
{
    CUresult result = fake_enter_unsafe(call);
    struct fake_memory *memory;
    if (result == CUDA_SUCCESS) {
        result = fake_allocate(kind, size, &memory);
    }
    if (result == CUDA_SUCCESS) {
        *out = memory->base;
    }
    return fake_leave(result);
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t size)
{
    return allocate_device(__func__, FAKE_DEVICE, out, size);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
    (void)flags;
    return allocate_device(__func__, FAKE_MANAGED, out, size);
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    (void)flags;
    CUresult result = fake_enter_unsafe(__func__);
    struct fake_memory *memory;
    if (result == CUDA_SUCCESS) {
        result = fake_allocate(FAKE_PINNED, size, &memory);
    }
    if (result == CUDA_SUCCESS) {
        *out = (void *)memory->base;
    }
    return fake_leave(result);
}

static CUresult release(const char *call, uintptr_t address, bool is_pinned)
{
    CUresult result = fake_enter_unsafe(call);
    if (result == CUDA_SUCCESS && address != 0) {
        struct fake_memory *memory = fake_find(address);
        if (memory == NULL || memory->base != address || memory->kind == FAKE_IMPORTED ||
            memory->kind == FAKE_REGISTERED || memory->kind == FAKE_RESERVED ||
            (memory->kind == FAKE_PINNED) != is_pinned) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else if (memory->kind == FAKE_POOL) {
            result = fake_pool_free(memory, NULL); /* The one kind that waits for nothing. */
        } else {
            fake_drain_all(); /* The driver's waits for the device too. */
            fake_remove(memory);
        }
    }
    return fake_leave(result);
}

CUresult cuMemFree(CUdeviceptr address)
{
    return release(__func__, address, false);
}

CUresult cuMemFreeHost(void *memory)
{
    return release(__func__, (uintptr_t)memory, true);
}

/* Does any of it belong to memory that is known? */
static bool is_known(uintptr_t base, size_t size)
{
    for (const struct fake_memory *at = fake.memories; at != NULL; at = at->next) {
        if (base < at->base + at->size && at->base < base + size) {
            return true;
        }
    }
    return false;
}

CUresult cuMemHostRegister(void *memory, size_t size, unsigned int flags)
{
    (void)flags;
    CUresult result = fake_enter_unsafe(__func__);
    if (result == CUDA_SUCCESS && (memory == NULL || size == 0)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && is_known((uintptr_t)memory, size)) {
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    struct fake_memory *added = result == CUDA_SUCCESS ? calloc(1, sizeof(*added)) : NULL;
    if (added != NULL) {
        *added = (struct fake_memory){.next = fake.memories,
                                      .kind = FAKE_REGISTERED,
                                      .device = fake_current()->device,
                                      .base = (uintptr_t)memory,
                                      .size = size,
                                      .alias = memory,
                                      .fd = -1};
        fake.memories = added;
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return fake_leave(result);
}

CUresult cuMemHostUnregister(void *memory)
{
    CUresult result = fake_enter_unsafe(__func__);
    struct fake_memory *known = result == CUDA_SUCCESS ? fake_find((uintptr_t)memory) : NULL;
    if (known != NULL && known->kind == FAKE_REGISTERED && known->alias == memory) {
        fake_drain_all();
        fake_remove(known);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    return fake_leave(result);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *memory, unsigned int flags)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        const struct fake_memory *known = fake_find((uintptr_t)memory);
        result = flags == 0 && known != NULL && fake_is_page_locked(known->kind)
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_INVALID_VALUE;
        *out = result == CUDA_SUCCESS ? (CUdeviceptr)(uintptr_t)memory : 0;
    }
    return fake_leave(result);
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        *total = fake.memory_max;
        *free_bytes = free_bytes_of(fake_current()->device);
    }
    return fake_leave(result);
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        const struct fake_memory *memory = fake_find(address);
        struct fake_memory mapping;
        if (memory != NULL && memory->kind == FAKE_RESERVED) { /* One handle's, and no more. */
            memory = fake_virtual_mapping(memory, address, &mapping) ? &mapping : NULL;
        }
        if (memory == NULL) {
            result = CUDA_ERROR_NOT_FOUND;
        } else {
            if (base != NULL) {
                *base = memory->base;
            }
            if (size != NULL) {
                *size = memory->size;
            }
        }
    }
    return fake_leave(result);
}

/* ---- other processes ---- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        const struct fake_memory *memory = fake_find(address);
        if (memory == NULL || memory->kind != FAKE_DEVICE) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else {
            struct fake_handle handle = {.magic = HANDLE_MAGIC,
                                         .size = memory->size,
                                         .inode = memory->inode,
                                         .pid = getpid(),
                                         .fd = memory->fd,
                                         .device = fake_machine_number(memory->device),
                                         .instance = fake_instance()};
            memset(out, 0, sizeof(*out));
            memcpy(out, &handle, sizeof(handle));
        }
    }
    return fake_leave(result);
}

/* The import of that handle in the current context; NULL: there is none. */
static struct fake_memory *find_import(const struct fake_handle *handle)
{
    struct fake_memory *memory = fake.memories;
    while (memory != NULL && (memory->kind != FAKE_IMPORTED || memory->inode != handle->inode ||
                              memory->context != fake_current())) {
        memory = memory->next;
    }
    return memory;
}

static CUresult open_handle(const struct fake_handle *handle, CUdeviceptr *out)
{
    if (handle->magic != HANDLE_MAGIC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (handle->pid == getpid()) {
        return CUDA_ERROR_INVALID_CONTEXT; /* Never the exporter's own. */
    }
    if (!fake.has_ipc || handle->instance != fake_instance()) {
        return CUDA_ERROR_MAP_FAILED;
    }
    struct fake_memory *memory = find_import(handle);
    if (memory != NULL) { /* Also where its exporter is gone. */
        memory->opens++;
        *out = memory->base;
        return CUDA_SUCCESS;
    }
    int device = fake_index_of(handle->device);
    if (device < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0 || stat.st_ino != handle->inode) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return CUDA_ERROR_MAP_FAILED; /* Its process is gone, or not ours to look into. */
    }
    memory = fake_add(FAKE_IMPORTED, device, handle->size, fd);
    if (memory == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->owner = handle->pid;
    memory->context = fake_current();
    memory->opens = 1;
    fake_machine_hold(memory);
    *out = memory->base;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    CUresult result = fake_enter_unsafe(__func__);
    if (result == CUDA_SUCCESS) {
        struct fake_handle own;
        memcpy(&own, &handle, sizeof(own));
        result = flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ? open_handle(&own, out)
                                                             : CUDA_ERROR_INVALID_VALUE;
    }
    return fake_leave(result);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    CUresult result = fake_enter_unsafe(__func__);
    if (result == CUDA_SUCCESS) {
        struct fake_memory *memory = fake_find(address);
        if (memory == NULL || memory->kind != FAKE_IMPORTED || memory->base != address) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else if (memory->context != fake_current()) {
            result = CUDA_ERROR_INVALID_CONTEXT;
        } else if (--memory->opens == 0) {
            if (fake_is_used(memory)) {
                fake_machine_fault("closes an import that its streams still use");
            }
            fake_drain_all();
            fake_remove(memory);
        }
    }
    return fake_leave(result);
}

/* ---- for tests ---- */

static unsigned count_kinds(bool is_pinned)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned count = 0;
    for (const struct fake_memory *m = fake.memories; m != NULL; m = m->next) {
        count += fake_is_page_locked(m->kind) == is_pinned && m->kind != FAKE_RESERVED;
    }
    count += is_pinned ? 0 : fake_virtual_live();
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

unsigned fakecuda_live_device(void)
{
    return count_kinds(false);
}

unsigned fakecuda_live_pinned(void)
{
    return count_kinds(true);
}

static bool reach(uint64_t address, void *to, const void *from, size_t len)
{
    (void)pthread_mutex_lock(&fake.lock);
    bool is_async = true;
    unsigned char *bytes =
        fake_find(address) != NULL
            ? fake_resolve(address, len, (struct fake_reach){.device = -1}, &is_async)
            : NULL;
    if (bytes != NULL && to != NULL) {
        memcpy(to, bytes, len);
    } else if (bytes != NULL && from != NULL) {
        memcpy(bytes, from, len);
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return bytes != NULL;
}

bool fakecuda_peek(uint64_t address, void *to, size_t len)
{
    return reach(address, to, NULL, len);
}

bool fakecuda_poke(uint64_t address, const void *from, size_t len)
{
    return reach(address, NULL, from, len);
}
