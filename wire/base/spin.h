/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread with nothing to do yields before it sleeps. The reasons and the measurements
 * are in docs/internals/sleeping.md.
 *
 * Yielding is worth it where the mean of a thread's waits is below AMB_SPIN_WORTH_NS, or below
 * AMB_SPIN_PER_WORK times its work between them. Time that a yield has lent to others is no part of
 * a wait. A thread that is to sleep yields once before, so it finds out whether others run there.
 *
 * And it is worth it only on a free core, which the share of late yields among the last ones tells.
 * Above AMB_SPIN_CROWD a thread sleeps at once for a while. After it comes a trial, which starts
 * just below. Yields in time end the matter, and a late one doubles the while.
 *
 * Threads: one at a time. Memory: the caller's.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SPIN_WORTH_NS (40 * AMB_NS_PER_US) /* a longer while has the same share of it: */
#define AMB_SPIN_WAKE_NS (15 * AMB_NS_PER_US)
#define AMB_SPIN_USUAL_NS (200 * AMB_NS_PER_US)
/* Waits so many times as long as the work between them are worth it. */
#define AMB_SPIN_PER_WORK 3
/* A yield on a free core is over by then. Else others ran meanwhile. */
#define AMB_SPIN_CALL_NS (1 * AMB_NS_PER_US)
/* A yield this late has met a slice of another's. With two cores and more Linux gives 1.4 to 3 ms:
 * 0.7 or 0.75 ms, times one and the logarithm of the cores. */
#define AMB_SPIN_LATE_NS AMB_NS_PER_MS
/* Shares of late yields. AMB_SPIN_ONE is all of them; each yield weighs a 16th of it. */
#define AMB_SPIN_ONE 65536u
#define AMB_SPIN_WEIGHT 16u
#define AMB_SPIN_CROWD (AMB_SPIN_ONE / 4)       /* above: others want the core */
#define AMB_SPIN_TRIAL (AMB_SPIN_ONE * 15 / 64) /* at a trial, before its first yield */
#define AMB_SPIN_FREE (AMB_SPIN_ONE / 16)       /* below: the core is free again */
/* Between two trials: at first, and at most. A trial may delay a message by a slice. */
#define AMB_SPIN_CROWD_MIN_NS (16 * AMB_NS_PER_MS)
#define AMB_SPIN_CROWD_MAX_NS (4 * AMB_NS_PER_SEC)

struct amb_spin {
    int64_t budget_ns, max_ns, worth_ns;
    int64_t gap_ns, work_ns;  /* means: of a wait, and from one wait to the next */
    int64_t lent_ns;          /* to others, in the yields since there was last work, */
    int64_t lent_before_ns;   /* ... and before that, in the same wait */
    int64_t crowd_ns;         /* between two trials; 0: the core is free */
    int64_t crowded_until_ns; /* the next trial */
    uint32_t late;            /* share of the last yields, of AMB_SPIN_ONE */
};

static inline void amb_spin_init(struct amb_spin *spin, int64_t max_ns)
{
    int64_t worth_ns = max_ns > AMB_SPIN_USUAL_NS ? max_ns / (AMB_SPIN_USUAL_NS / AMB_SPIN_WORTH_NS)
                                                  : AMB_SPIN_WORTH_NS;
    *spin = (struct amb_spin){.budget_ns = max_ns, .max_ns = max_ns, .worth_ns = worth_ns};
}

static inline void amb_spin_mean(int64_t *mean_ns, int64_t ns, int64_t most_ns)
{
    *mean_ns += ((ns < most_ns ? ns : most_ns) - *mean_ns) / 4;
}

/* A wait has ended after so long. It began so long after the end of the one before. */
static inline void amb_spin_note(struct amb_spin *spin, int64_t worked_ns, int64_t waited_ns)
{
    int64_t lent_ns = spin->lent_before_ns + spin->lent_ns;
    waited_ns = waited_ns > lent_ns ? waited_ns - lent_ns : 0;
    spin->lent_ns = spin->lent_before_ns = 0;
    int64_t most = spin->max_ns < INT64_MAX / 4 ? 4 * spin->max_ns : INT64_MAX;
    if (spin->budget_ns == 0) { /* A wait that slept has its own wake-up in it. */
        waited_ns = waited_ns > AMB_SPIN_WAKE_NS ? waited_ns - AMB_SPIN_WAKE_NS : 0;
    }
    amb_spin_mean(&spin->gap_ns, waited_ns, most);
    amb_spin_mean(&spin->work_ns, worked_ns, spin->max_ns);
    bool helps = spin->gap_ns < spin->worth_ns || spin->gap_ns < AMB_SPIN_PER_WORK * spin->work_ns;
    spin->budget_ns = helps && spin->gap_ns < spin->max_ns ? spin->max_ns : 0;
}

/* There was work, and the wait goes on: from here on the thread is idle anew. */
static inline void amb_spin_worked(struct amb_spin *spin)
{
    spin->lent_before_ns += spin->lent_ns;
    spin->lent_ns = 0;
}

/* Whether it is to sleep as soon as it has nothing to do, but for one yield. */
static inline bool amb_spin_rests(const struct amb_spin *spin, int64_t now_ns)
{
    return spin->budget_ns == 0 || now_ns < spin->crowded_until_ns;
}

/* Whether a thread that has had nothing to do for idle_ns yields once more. */
static inline bool amb_spin_pays(const struct amb_spin *spin, int64_t idle_ns, int64_t now_ns)
{
    int64_t own_ns = idle_ns - spin->lent_ns;
    return (own_ns < spin->budget_ns || (idle_ns == 0 && spin->max_ns != 0)) &&
           now_ns >= spin->crowded_until_ns;
}

/* The part of amb_spin_yielded that a free core does not need. */
void amb_spin_judge(struct amb_spin *spin, bool is_late, int64_t now_ns);

/* A yield that was to be over at due_ns came back at now_ns. amb_spin_yield calls it. */
static inline void amb_spin_yielded(struct amb_spin *spin, int64_t due_ns, int64_t now_ns)
{
    bool is_late = now_ns - due_ns > AMB_SPIN_LATE_NS;
    if (now_ns - due_ns > AMB_SPIN_CALL_NS && !is_late && spin->crowd_ns == 0) {
        spin->lent_ns += now_ns - due_ns - AMB_SPIN_CALL_NS;
    }
    if (__builtin_expect(is_late || spin->late != 0 || spin->crowd_ns != 0, 0)) {
        amb_spin_judge(spin, is_late, now_ns);
    }
}

/* Leaves the core to others, for a pause of our own (0: once). Returns the time. */
static inline int64_t amb_spin_yield(struct amb_spin *spin, int64_t pause_ns)
{
    int64_t due_ns = amb_clock_monotonic_ns() + pause_ns;
    int64_t now_ns = amb_clock_yield_until(due_ns);
    amb_spin_yielded(spin, due_ns, now_ns);
    return now_ns;
}
