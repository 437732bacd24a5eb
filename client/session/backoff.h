/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delay before the next attempt: twice as long each time, between two limits, a fifth more or
 * less by chance. So the clients of a broker that was away do not all come at once. Threads: owner
 * only. Memory: none; chance is the caller's.
 */
#pragma once

#include <stdint.h>

struct amb_backoff {
    int64_t next_ns, max_ns;
};

static inline void amb_backoff_init(struct amb_backoff *backoff, int64_t min_ns, int64_t max_ns)
{
    backoff->max_ns = max_ns > 0 ? max_ns : 1;
    backoff->next_ns = min_ns < backoff->max_ns ? min_ns : backoff->max_ns;
    backoff->next_ns = backoff->next_ns > 0 ? backoff->next_ns : 1;
}

/* chance: 64 random bits. Between 0.8 and 1.2 times the step, never above 1.2 times the maximum. */
static inline int64_t amb_backoff_next(struct amb_backoff *backoff, uint64_t chance)
{
    int64_t step = backoff->next_ns;
    backoff->next_ns = step > backoff->max_ns / 2 ? backoff->max_ns : step * 2;
    int64_t fifth = step / 5;
    return step - fifth + (int64_t)(chance % ((uint64_t)fifth * 2 + 1));
}
