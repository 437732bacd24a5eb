/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a data path must not do. Loaded by LD_PRELOAD, it passes each call on and counts it
 * in a file that a test may read at any time: $AMB_COUNT_DIR/<pid>. It has COUNTS numbers of 8
 * bytes in the machine's order: allocations, frees, locks taken, system calls, and those that only
 * yield. The last is the allocations by libssl and libcrypto, which are among the first.
 *
 * System calls are counted where the program calls the C library for them. Those inside it (futexes
 * of a contended mutex, mappings of an allocator) are not.
 *
 * Threads: any. Memory: a few bytes for what dlsym allocates before malloc is known.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

enum {
    ALLOCATIONS,
    FREES,
    LOCKS,
    SYSCALLS,
    YIELDS,
    OF_OPENSSL,
    COUNTS
};

static _Atomic uint64_t before[COUNTS]; /* until there is a file */
static _Atomic uint64_t *counts = before;

static void count(int what)
{
    (void)atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed);
}

/* Where libssl and libcrypto lie, if they are there from the start. */
static struct span {
    uintptr_t from, to;
} openssl[2];

static int find_openssl(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    size_t place = strstr(info->dlpi_name, "/libssl.so") != NULL ? 0 : 1;
    if (place == 1 && strstr(info->dlpi_name, "/libcrypto.so") == NULL) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
            openssl[place].from = info->dlpi_addr + part->p_vaddr;
            openssl[place].to = openssl[place].from + part->p_memsz;
        }
    }
    return 0;
}

static void count_allocation(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    count(ALLOCATIONS);
    for (size_t i = 0; i < 2; i++) {
        if (at >= openssl[i].from && at < openssl[i].to) {
            count(OF_OPENSSL);
        }
    }
}

__attribute__((constructor)) static void open_file(void)
{
    const char *folder = getenv("AMB_COUNT_DIR");
    char path[512];
    (void)dl_iterate_phdr(find_openssl, NULL);
    if (folder == NULL ||
        snprintf(path, sizeof(path), "%s/%d", folder, (int)getpid()) >= (int)sizeof(path)) {
        return;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return;
    }
    if (ftruncate(fd, sizeof(before)) == 0) {
        void *map = mmap(NULL, sizeof(before), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) {
            counts = map;
        }
    }
    (void)close(fd);
}

/* The function of that name behind this one. Threads that come here at once find the same. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (next == NULL) {                                                                            \
        find(#name, &next);                                                                        \
    }

/* dlsym may allocate while it looks for malloc. */
static _Alignas(16) uint8_t early[4096];
static size_t early_used;
static _Thread_local int finding __attribute__((tls_model("initial-exec")));

static void find(const char *name, void *next)
{
    finding++;
    void *symbol = dlsym(RTLD_NEXT, name);
    finding--;
    memcpy(next, &symbol, sizeof(symbol));
}

static void *early_take(size_t size)
{
    size_t at = early_used;
    early_used += (size + 15) & ~(size_t)15;
    return early_used <= sizeof(early) ? early + at : NULL;
}

static int is_early(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;
    return at >= (uintptr_t)early && at < (uintptr_t)early + sizeof(early);
}

SHOWN void *malloc(size_t size)
{
    if (finding != 0) {
        return early_take(size);
    }
    NEXT(malloc)
    count_allocation(__builtin_return_address(0));
    return next(size);
}

SHOWN void *calloc(size_t number, size_t size)
{
    if (finding != 0) {
        return early_take(number * size);
    }
    NEXT(calloc)
    count_allocation(__builtin_return_address(0));
    return next(number, size);
}

SHOWN void *realloc(void *memory, size_t size)
{
    NEXT(realloc)
    count_allocation(__builtin_return_address(0));
    return next(memory, size);
}

SHOWN void *aligned_alloc(size_t alignment, size_t size)
{
    NEXT(aligned_alloc)
    count_allocation(__builtin_return_address(0));
    return next(alignment, size);
}

SHOWN int posix_memalign(void **memory, size_t alignment, size_t size)
{
    NEXT(posix_memalign)
    count_allocation(__builtin_return_address(0));
    return next(memory, alignment, size);
}

SHOWN void free(void *memory)
{
    if (memory == NULL || is_early(memory)) {
        return;
    }
    NEXT(free)
    count(FREES);
    next(memory);
}

SHOWN int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    NEXT(pthread_mutex_lock)
    count(LOCKS);
    return next(mutex);
}

SHOWN int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    NEXT(pthread_mutex_trylock)
    count(LOCKS);
    return next(mutex);
}

/* A system call: counted, then passed on. */
#define CALL(type, name, parameters, ...)                                                          \
    SHOWN type name parameters                                                                     \
    {                                                                                              \
        NEXT(name)                                                                                 \
        count(SYSCALLS);                                                                           \
        return next(__VA_ARGS__);                                                                  \
    }

CALL(ssize_t, read, (int fd, void *bytes, size_t size), fd, bytes, size)
CALL(ssize_t, write, (int fd, const void *bytes, size_t size), fd, bytes, size)
CALL(ssize_t, readv, (int fd, const struct iovec *iov, int n), fd, iov, n)
CALL(ssize_t, writev, (int fd, const struct iovec *iov, int n), fd, iov, n)
CALL(ssize_t, recv, (int fd, void *bytes, size_t size, int flags), fd, bytes, size, flags)
CALL(ssize_t, send, (int fd, const void *bytes, size_t size, int flags), fd, bytes, size, flags)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
CALL(int, poll, (struct pollfd * fds, nfds_t n, int timeout), fds, n, timeout)
CALL(int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *ts, const sigset_t *mask),
     fds, n, ts, mask)
CALL(int, epoll_wait, (int fd, struct epoll_event *events, int n, int timeout), fd, events, n,
     timeout)
CALL(int, epoll_ctl, (int fd, int op, int other, struct epoll_event *event), fd, op, other, event)
CALL(int, nanosleep, (const struct timespec *ts, struct timespec *left), ts, left)

SHOWN int sched_yield(void)
{
    NEXT(sched_yield)
    count(SYSCALLS);
    count(YIELDS);
    return next();
}

SHOWN long syscall(long number, ...)
{
    NEXT(syscall)
    count(SYSCALLS);
    va_list args;
    va_start(args, number);
    long a = va_arg(args, long), b = va_arg(args, long), c = va_arg(args, long);
    long d = va_arg(args, long), e = va_arg(args, long), f = va_arg(args, long);
    va_end(args);
    return next(number, a, b, c, d, e, f);
}
