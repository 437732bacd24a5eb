/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on what the broker shares: the ring's memory, its bells, and the segments. Everything
 * that can be tried with a descriptor is tried on each of them, also as another user.
 */
#include "tests/support/hostile/hostile.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define SEAL_EXEC 0x0020

/* The truth of what may not work: `did` of a call on a descriptor that must refuse it. */
static void refused(bool did, const char *what, const char *of)
{
    if (did) {
        hostile_fail("%s works on %s", what, of);
    }
}

void hostile_try_segment(int fd, uint64_t size, const char *of)
{
    char byte = 'x';
    refused(ftruncate(fd, 0) == 0, "ftruncate to 0", of);
    refused(ftruncate(fd, (off_t)size / 2) == 0, "ftruncate to half", of);
    refused(ftruncate(fd, (off_t)size * 2) == 0, "ftruncate to double", of);
    refused(pwrite(fd, &byte, 1, 0) == 1, "pwrite", of);
    refused(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536) == 0, "PUNCH_HOLE",
            of);
    refused(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 65536) == 0, "ZERO_RANGE", of);
    refused(fallocate(fd, 0, (off_t)size, 65536) == 0, "growing", of);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    refused(base != MAP_FAILED, "a mapping that writes", of);
    base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED) {
        refused(mprotect(base, 4096, PROT_READ | PROT_WRITE) == 0, "mprotect", of);
        refused(madvise(base, 65536, MADV_REMOVE) == 0, "MADV_REMOVE", of);
        (void)munmap(base, size);
    }
    for (int seal = F_SEAL_SEAL; seal <= SEAL_EXEC; seal <<= 1) {
        refused(fcntl(fd, F_ADD_SEALS, seal) == 0, "F_ADD_SEALS", of);
    }
}

/* O_NONBLOCK: it may have been given a lease, by one who shares our open file. */
static int reopen(int fd, int flags)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC | O_NONBLOCK);
}

/* Nothing of ours may be opened at all, not even by who holds the descriptor. */
void hostile_try_as_nobody(int fd, uint64_t size, const char *of)
{
    if (geteuid() != 0) {
        return;
    }
    hostile_modes_hold(false);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
            _exit(2);
        }
        refused(reopen(fd, O_RDWR) >= 0, "opening for writing as nobody", of);
        if (size > 0) {
            hostile_try_segment(fd, size, of);
        }
        _exit(0);
    }
    int status = 0;
    if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0)) {
        hostile_fail("the one who is nobody ended with %#x", (unsigned)status);
    }
    hostile_modes_release();
}

static enum hostile_verdict segments(struct hostile *h)
{
    if (!h->is_deaf && (h->segment_count == 0 || !h->may_map)) {
        hostile_fail("no segment was offered");
    }
    for (unsigned i = 0; i < h->segment_count; i++) {
        struct hostile_segment *segment = &h->segments[i];
        hostile_try_segment(segment->fd, segment->size, "a segment");
        int flags[] = {O_RDWR, O_WRONLY, O_RDWR | O_TRUNC};
        for (unsigned f = 0; f < 3; f++) {
            int fd = reopen(segment->fd, flags[f]);
            if (fd >= 0) {
                hostile_try_segment(fd, segment->size, "a segment that was opened again");
                (void)close(fd);
            }
        }
        if (segment->base != NULL) {
            refused(mprotect(segment->base, 4096, PROT_READ | PROT_WRITE) == 0, "mprotect",
                    "a segment");
            refused(madvise(segment->base, 65536, MADV_REMOVE) == 0, "MADV_REMOVE", "a segment");
        }
    }
    hostile_traffic(h, 5);
    return HOSTILE_LIVES;
}

static enum hostile_verdict nobody(struct hostile *h)
{
    for (unsigned i = 0; i < h->segment_count; i++) {
        hostile_try_as_nobody(h->segments[i].fd, h->segments[i].size, "a segment");
    }
    hostile_try_as_nobody(h->ring.memory, 0, "the ring");
    return HOSTILE_LIVES;
}

static mode_t mode_of(int fd)
{
    struct stat file;
    if (fstat(fd, &file) != 0) {
        hostile_fail("fstat of a segment");
    }
    return file.st_mode & 07777;
}

/* The owner of the file may change its mode: the seals still hold. */
static enum hostile_verdict modes(struct hostile *h)
{
    mode_t former[HOSTILE_SEGMENTS_MAX];
    hostile_modes_hold(true);
    for (unsigned i = 0; i < h->segment_count; i++) {
        former[i] = mode_of(h->segments[i].fd);
        (void)fchmod(h->segments[i].fd, 0777);
        int fd = reopen(h->segments[i].fd, O_RDWR);
        if (fd >= 0) {
            hostile_try_segment(fd, h->segments[i].size, "a segment of mode 0777");
            (void)close(fd);
        }
        (void)fchmod(h->segments[i].fd, 0);
    }
    (void)fchmod(h->ring.memory, 0);
    unsigned count = h->segment_count; /* Traffic may bring more of them. */
    hostile_traffic(h, 5);
    for (unsigned i = 0; i < count; i++) {
        (void)fchmod(h->segments[i].fd, former[i]);
    }
    hostile_modes_release();
    return HOSTILE_LIVES;
}

static enum hostile_verdict ring_size(struct hostile *h)
{
    off_t size = (off_t)h->memory_size;
    const off_t sizes[] = {0, 4096, size / 2, size - 1, size + 1, size * 2, INT64_MAX};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        refused(ftruncate(h->ring.memory, sizes[i]) == 0, "ftruncate", "the ring");
    }
    for (int seal = F_SEAL_SEAL; seal <= SEAL_EXEC; seal <<= 1) {
        refused(fcntl(h->ring.memory, F_ADD_SEALS, seal) == 0, "F_ADD_SEALS", "the ring");
    }
    refused(ftruncate(h->ring.bell, 0) == 0, "ftruncate", "the bell");
    hostile_traffic(h, 5);
    return HOSTILE_LIVES;
}

/* Pages of the ring taken away: they come back as zeros. */
static enum hostile_verdict ring_holes(struct hostile *h)
{
    for (int i = 0; i < 20; i++) {
        uint64_t pages = h->memory_size / 4096;
        uint64_t at = hostile_below(h, pages) * 4096;
        uint64_t len = (1 + hostile_below(h, pages - at / 4096)) * 4096;
        switch (hostile_below(h, 4)) {
        case 0:
            (void)madvise(h->memory + at, len, MADV_REMOVE);
            break;
        case 1:
            (void)madvise(h->memory + at, len, MADV_DONTNEED);
            break;
        case 2:
            (void)fallocate(h->ring.memory, FALLOC_FL_ZERO_RANGE, (off_t)at, (off_t)len);
            break;
        default:
            (void)fallocate(h->ring.memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                            (off_t)len);
        }
        hostile_traffic(h, 1);
    }
    return HOSTILE_EITHER;
}

/* The broker reads and watches the open file that we have. */
static enum hostile_verdict bells(struct hostile *h)
{
    int bell = h->ring.bell;
    if (hostile_below(h, 2) == 0) {
        for (uint64_t most = UINT64_MAX - 1; most > 0; most /= 2) { /* Full. */
            (void)!write(bell, &most, sizeof(most));
        }
        (void)fcntl(bell, F_SETFL, O_NONBLOCK | O_ASYNC);
    } else {
        (void)fcntl(bell, F_SETFL, 0);
    }
    (void)fcntl(bell, F_SETOWN, getppid());
    hostile_traffic(h, 5);
    if (hostile_below(h, 2) == 0) {
        (void)close(bell);
    }
    hostile_traffic(h, 5);
    return HOSTILE_LIVES;
}

/* Locks, leases and notifications on files that the broker has, too. */
static enum hostile_verdict locks(struct hostile *h)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (unsigned i = 0; i <= h->segment_count; i++) {
        int fd = i < h->segment_count ? h->segments[i].fd : h->ring.memory;
        (void)fcntl(fd, F_SETLK, &lock);
        (void)fcntl(fd, F_OFD_SETLK, &lock);
        (void)fcntl(fd, F_SETLEASE, F_RDLCK);
        (void)fcntl(fd, F_SETLEASE, F_WRLCK);
    }
    hostile_traffic(h, 5);
    return HOSTILE_LIVES;
}

/* The pidfd says when the process is gone: a child goes on reading, and holds the sockets. */
static enum hostile_verdict orphan(struct hostile *h)
{
    h->keeps_deliveries = true;
    hostile_traffic(h, 5);
    pid_t pid = fork();
    if (pid == 0) {
        volatile uint8_t sum = 0;
        for (int i = 0; i < 20; i++) {
            for (unsigned s = 0; s < h->segment_count; s++) {
                for (uint64_t at = 0; h->segments[s].base != NULL && at < 65536; at += 4096) {
                    sum = (uint8_t)(sum + h->segments[s].base[at]);
                }
            }
            memset(h->memory + 73728, i, 65536);
            (void)usleep(1000);
        }
        _exit(0);
    }
    return HOSTILE_GONE;
}

const struct hostile_attack hostile_memory_attacks[] = {
    {.name = "segments", .run = segments},
    {.name = "nobody", .run = nobody},
    {.name = "modes", .run = modes},
    {.name = "ring-size", .run = ring_size},
    {.name = "ring-holes", .run = ring_holes},
    {.name = "bells", .run = bells},
    {.name = "locks", .run = locks},
    {.name = "orphan", .run = orphan},
    {.name = NULL},
};
