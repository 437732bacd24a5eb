/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock of the processes that load it by LD_PRELOAD jumps when a test says so. The test
 * writes nanoseconds into the file $AMB_SHIFT_FILE, a number of 8 bytes in the machine's order, at
 * any time. They are added to CLOCK_REALTIME, to time and to gettimeofday; other clocks go on.
 *
 * Threads: any. Memory: none.
 */
#include "tests/support/programs/mapped.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define NS_PER_S INT64_C(1000000000)

static _Atomic int64_t before; /* until there is a file */
static _Atomic int64_t *shift_ns = &before;
static int (*next_clock_gettime)(clockid_t clock, struct timespec *out);

__attribute__((constructor)) static void begin(void)
{
    void *symbol = dlsym(RTLD_NEXT, "clock_gettime");
    memcpy(&next_clock_gettime, &symbol, sizeof(symbol));
    shift_ns = map_named("AMB_SHIFT_FILE", sizeof(before), &before);
}

static int64_t shifted_ns(const struct timespec *now)
{
    return now->tv_sec * NS_PER_S + now->tv_nsec +
           atomic_load_explicit(shift_ns, memory_order_relaxed);
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *out)
{
    int answer = next_clock_gettime != NULL ? next_clock_gettime(clock, out)
                                            : (int)syscall(SYS_clock_gettime, clock, out);
    if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = shifted_ns(out);
        out->tv_sec = ns / NS_PER_S;
        out->tv_nsec = ns % NS_PER_S;
    }
    return answer;
}

SHOWN time_t time(time_t *out)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

SHOWN int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now = {0};
    (void)zone;
    int answer = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return answer;
}
