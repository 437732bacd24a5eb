/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/segment.h"

#include "broker/memory/gpupool.h"
#include "wire/base/assert.h"
#include "wire/base/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_BYTES (UINT64_C(2) << 20)

static enum amb_status status_of_errno(int error)
{
    /* tmpfs says ENOSPC, or ENODEV where it has no memory at all. */
    return error == ENOSPC || error == ENODEV ? AMB_ENOMEM : amb_status_from_errno(error);
}

/* All pages now: a page missing later would be a SIGBUS. */
static int allocate(int fd, uint64_t offset, uint64_t size)
{
    int rc;
    do {
        rc = fallocate(fd, 0, (off_t)offset, (off_t)size);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

static void segment_pause(const struct amb_segment_pause *pause)
{
    if (pause != NULL) {
        pause->fn(pause->arg);
    }
}

static int allocate_all(int fd, uint64_t size, const struct amb_segment_pause *pause)
{
    int rc = 0;
    for (uint64_t at = 0; at < size && rc == 0; at += PART_BYTES) {
        segment_pause(pause);
        rc = allocate(fd, at, size - at < PART_BYTES ? size - at : PART_BYTES);
    }
    return rc;
}

/*
 * Has every page in our page table. Bit by bit: MAP_POPULATE would keep the address space locked
 * for as long as it takes, and another thread's page fault with it.
 */
static void populate(const struct amb_segment *segment, const struct amb_segment_pause *pause)
{
    bool is_supported = true;
    for (uint64_t at = 0; at < segment->size; at += PART_BYTES) {
        segment_pause(pause);
        uint64_t left = segment->size - at;
        uint64_t bytes = left < PART_BYTES ? left : PART_BYTES;
        is_supported = is_supported && amb_pages_bring(segment->base + at, (size_t)bytes) == 0;
        for (uint64_t i = 0; i < bytes && !is_supported; i += 4096) {
            *(volatile uint8_t *)(segment->base + at + i) = 0; /* It is 0. */
        }
    }
}

/* An open file description of its own. A client of our own user may hold a lease on a descriptor
 * that it was given (F_SETLEASE). An open that blocks would wait for 45 s until that is broken. */
static int reopen(int fd, int mode)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, mode | O_CLOEXEC | O_NONBLOCK);
}

/*
 * The order matters. The mode first: a memfd is born 0777, so that any user could re-open a
 * read-only descriptor for writing. The mapping before the seals: FUTURE_WRITE spares only the
 * mappings that exist.
 */
static enum amb_status build(struct amb_segment *segment, int fd,
                             const struct amb_segment_pause *pause)
{
    if (fchmod(fd, 0600) != 0 || allocate_all(fd, segment->size, pause) != 0) {
        return status_of_errno(errno);
    }
    void *base = mmap(NULL, (size_t)segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return status_of_errno(errno);
    }
    segment->base = base;
    populate(segment, pause);
    segment->fd_ro = reopen(fd, O_RDONLY);
    if (segment->fd_ro < 0) {
        return status_of_errno(errno);
    }
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    return fcntl(fd, F_ADD_SEALS, seals) == 0 ? AMB_OK : status_of_errno(errno);
}

/*
 * A client gets a writable descriptor: it shall neither shrink nor grow it. The seals of build come
 * when the client has its mapping. Ours may be written too, because registering memory for RDMA
 * asks for that, but never is.
 */
static enum amb_status build_leased(struct amb_segment *segment, int fd,
                                    const struct amb_segment_pause *pause)
{
    (void)pause; /* Its pages come later (amb_segment_fill). */
    if (fchmod(fd, 0600) != 0 || ftruncate(fd, (off_t)segment->size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        return status_of_errno(errno);
    }
    void *base = mmap(NULL, (size_t)segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return status_of_errno(errno);
    }
    segment->base = base;
    segment->fd_ro = reopen(fd, O_RDONLY);
    segment->fd_rw = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return segment->fd_ro >= 0 && segment->fd_rw >= 0 ? AMB_OK : status_of_errno(errno);
}

typedef enum amb_status (*build_fn)(struct amb_segment *segment, int fd,
                                    const struct amb_segment_pause *pause);

static enum amb_status create(uint64_t id, uint64_t size, build_fn build_it,
                              const struct amb_segment_pause *pause, struct amb_segment **out)
{
    if (size == 0 || size % (uint64_t)sysconf(_SC_PAGESIZE) != 0 || size > INT64_MAX) {
        return AMB_EINVAL;
    }
    struct amb_segment *segment = calloc(1, sizeof(*segment));
    if (segment == NULL) {
        return AMB_ENOMEM;
    }
    segment->id = id;
    segment->size = size;
    segment->fd_ro = segment->fd_rw = -1;
    amb_list_init(&segment->node);

    int fd = memfd_create("ambroker-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    enum amb_status status = fd < 0 ? status_of_errno(errno) : build_it(segment, fd, pause);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status != AMB_OK) {
        amb_segment_destroy(&segment);
        return status;
    }
    *out = segment;
    return AMB_OK;
}

enum amb_status amb_segment_create(uint64_t id, uint64_t size, struct amb_segment **out)
{
    return create(id, size, build, NULL, out);
}

enum amb_status amb_segment_create_in_parts(uint64_t id, uint64_t size,
                                            const struct amb_segment_pause *pause,
                                            struct amb_segment **out)
{
    return create(id, size, build, pause, out);
}

enum amb_status amb_segment_create_leased(uint64_t id, uint64_t size, struct amb_segment **out)
{
    return create(id, size, build_leased, NULL, out);
}

enum amb_status amb_segment_create_gpu(uint64_t id, struct amb_gpu_pool *pool, uint64_t size,
                                       struct amb_segment **out)
{
    struct amb_segment *segment = calloc(1, sizeof(*segment));
    if (segment == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_gpu_pool_take(pool, size, &segment->gpu_offset);
    if (status != AMB_OK) {
        free(segment);
        return status;
    }
    segment->id = id;
    segment->size = size;
    segment->gpu = pool;
    segment->base = (uint8_t *)(uintptr_t)(pool->base + segment->gpu_offset);
    segment->fd_ro = segment->fd_rw = -1;
    amb_list_init(&segment->node);
    *out = segment;
    return AMB_OK;
}

enum amb_status amb_segment_fill(int fd, uint64_t offset, uint64_t size)
{
    return allocate(fd, offset, size) == 0 ? AMB_OK : status_of_errno(errno);
}

enum amb_status amb_segment_open_writer(const struct amb_segment *segment, int *fd)
{
    *fd = reopen(segment->fd_rw, O_RDWR);
    return *fd >= 0 ? AMB_OK : AMB_ELIMIT;
}

/*
 * A write lease (fcntl(2), F_SETLEASE) is granted if no other description of the file is open for
 * reading or writing. The description that memfd_create made is counted as neither, so our own
 * mapping does not stand in the way. Counted are descriptions of mappings, of inherited ones, and
 * of descriptors that wait in a socket.
 */
enum amb_segment_use amb_segment_ask_use(struct amb_segment *segment)
{
    if (segment->gpu != NULL || segment->destroy != NULL || segment->fd_ro < 0) {
        return AMB_SEGMENT_UNUSED;
    }
    amb_segment_finish(segment);
    int own = reopen(segment->fd_ro, O_RDONLY);
    if (own < 0) {
        /* No descriptor left, or somebody has a lease on one of the file: asked again later. */
        return AMB_SEGMENT_IN_USE;
    }
    (void)close(segment->fd_ro);
    segment->fd_ro = own;
    if (fcntl(own, F_SETLEASE, F_WRLCK) == 0) {
        (void)fcntl(own, F_SETLEASE, F_UNLCK);
        return AMB_SEGMENT_UNUSED;
    }
    return errno == EAGAIN ? AMB_SEGMENT_IN_USE : AMB_SEGMENT_UNKNOWN;
}

enum amb_status amb_segment_seal(struct amb_segment *segment)
{
    amb_assert(segment->fd_rw >= 0);
    /* Fails if the client has sealed it against seals; others that it may have added are ours. */
    return fcntl(segment->fd_rw, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0
               ? AMB_OK
               : AMB_EFORBIDDEN;
}

void amb_segment_finish(struct amb_segment *segment)
{
    if (segment->fd_rw >= 0) {
        (void)close(segment->fd_rw);
        segment->fd_rw = -1;
    }
}

void amb_segment_destroy(struct amb_segment **segment)
{
    struct amb_segment *s = *segment;
    *segment = NULL;
    if (s == NULL) {
        return;
    }
    amb_list_remove(&s->node);
    if (s->destroy != NULL) {
        s->destroy(s);
        return;
    }
    if (s->gpu != NULL) {
        amb_gpu_pool_give(s->gpu, s->gpu_offset, s->size);
    } else if (s->base != NULL) {
        int rc = munmap(s->base, (size_t)s->size);
        amb_assert(rc == 0);
    }
    if (s->fd_ro >= 0) {
        (void)close(s->fd_ro);
    }
    amb_segment_finish(s);
    free(s);
}
