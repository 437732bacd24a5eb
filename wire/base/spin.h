/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread with nothing to do yields before it sleeps. Yielding is worth it only if the
 * awaited event mostly comes that soon. Where it does not, each wait would burn the whole budget.
 * Threads: one at a time. Memory: the caller's.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SPIN_SHORT_NS (5 * AMB_NS_PER_US)

struct amb_spin {
    int64_t budget_ns, max_ns, gap_ns;
};

static inline void amb_spin_init(struct amb_spin *spin, int64_t max_ns)
{
    *spin = (struct amb_spin){.budget_ns = max_ns, .max_ns = max_ns};
}

/* A wait has ended after so long. */
static inline void amb_spin_note(struct amb_spin *spin, int64_t waited_ns)
{
    int64_t most = spin->max_ns < INT64_MAX / 4 ? 4 * spin->max_ns : INT64_MAX;
    waited_ns = waited_ns < most ? waited_ns : most;
    spin->gap_ns += (waited_ns - spin->gap_ns) / 4;
    bool helps = spin->gap_ns < spin->max_ns || spin->max_ns < AMB_SPIN_SHORT_NS;
    spin->budget_ns = helps ? spin->max_ns : AMB_SPIN_SHORT_NS;
}
