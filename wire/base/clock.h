/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. Below the loops of threads every function takes `now_ns` as an argument, so that the core
 * runs under a simulated clock; only loops and tools ask here.
 * Threads: any.
 */
#pragma once

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

/* now + duration without overflow; INT64_MAX means "never" in both. */
static inline int64_t amb_deadline_ns(int64_t now_ns, int64_t duration_ns)
{
    if (duration_ns >= INT64_MAX - now_ns) {
        return INT64_MAX;
    }
    return now_ns + duration_ns;
}
