/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. Below the loops of threads every function takes `now_ns` as an argument, so the core runs
 * under a simulated clock. Only loops and tools ask here.
 * Threads: any.
 */
#pragma once

#include <sched.h>
#include <stdint.h>
#include <time.h>

#define AMB_NS_PER_US INT64_C(1000)
#define AMB_NS_PER_MS INT64_C(1000000)
#define AMB_NS_PER_SEC INT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds. */
static inline int64_t amb_clock_monotonic_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * AMB_NS_PER_SEC + ts.tv_nsec;
}

/* CLOCK_REALTIME in nanoseconds since 1970. */
static inline int64_t amb_clock_realtime_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * AMB_NS_PER_SEC + ts.tv_nsec;
}

/* Leaves the core to others until then, at least once. Returns the time. */
static inline int64_t amb_clock_yield_until(int64_t until_ns)
{
    int64_t now_ns;
    do {
        (void)sched_yield();
        now_ns = amb_clock_monotonic_ns();
    } while (now_ns < until_ns);
    return now_ns;
}

/* The pause after one of pause_ns (0: the first) between two looks: min_ns, then twice as long, up
 * to max_ns. */
static inline int64_t amb_clock_next_pause(int64_t pause_ns, int64_t min_ns, int64_t max_ns)
{
    pause_ns = pause_ns == 0 ? min_ns : pause_ns * 2;
    return pause_ns < max_ns ? pause_ns : max_ns;
}

/* now + duration without overflow; INT64_MAX means "never" in both. */
static inline int64_t amb_deadline_ns(int64_t now_ns, int64_t duration_ns)
{
    if (duration_ns >= INT64_MAX - now_ns) {
        return INT64_MAX;
    }
    return now_ns + duration_ns;
}
