/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the next event come soon? Then a word on this one, which costs a system call and a wake-up,
 * can wait, and go together with the next one's.
 *
 * Words wait once AMB_RHYTHM_MIN events in a row have come within AMB_RHYTHM_SOON_NS of each other.
 * One leaves AMB_RHYTHM_HOLD_NS after the first that waited. Where no event comes any more, a timer
 * of the caller's sends it (amb_rhythm_left).
 *
 * The other end may wait for that very word, and send nothing before. No message says so, so it is
 * learned. After each wait that a timer had to end, twice as many events in a row are needed. After
 * AMB_RHYTHM_GOOD events while words waited, half of that is enough again.
 *
 * Threads: one at a time. Memory: the caller's; zeroed, it is ready.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_RHYTHM_SOON_NS (500 * AMB_NS_PER_US)
#define AMB_RHYTHM_HOLD_NS AMB_NS_PER_MS
#define AMB_RHYTHM_MIN 16u
#define AMB_RHYTHM_MAX 65536u
#define AMB_RHYTHM_GOOD 4096u

struct amb_rhythm {
    int64_t last_ns;  /* the last event */
    int64_t since_ns; /* a word has waited since; 0: none waits */
    uint32_t soon;    /* events in a row, each soon after the one before */
    uint32_t needed;  /* of them, before a word waits; 0: AMB_RHYTHM_MIN */
};

/* An event, with a word to be told. True: the word waits. False: it leaves, with all that waited.
 */
static inline bool amb_rhythm_waits(struct amb_rhythm *rhythm, int64_t now_ns)
{
    bool is_soon = now_ns - rhythm->last_ns < AMB_RHYTHM_SOON_NS;
    uint32_t needed = rhythm->needed != 0 ? rhythm->needed : AMB_RHYTHM_MIN;
    rhythm->last_ns = now_ns;
    rhythm->soon = is_soon ? rhythm->soon + 1 : 0;
    if (rhythm->soon < needed ||
        (rhythm->since_ns != 0 && now_ns - rhythm->since_ns >= AMB_RHYTHM_HOLD_NS)) {
        rhythm->since_ns = 0;
        return false;
    }
    if (rhythm->soon - needed >= AMB_RHYTHM_GOOD) {
        rhythm->needed = needed / 2 > AMB_RHYTHM_MIN ? needed / 2 : AMB_RHYTHM_MIN;
        rhythm->soon = rhythm->needed; /* It counts from here on. */
    }
    rhythm->since_ns = rhythm->since_ns != 0 ? rhythm->since_ns : now_ns;
    return true;
}

/* The word has left without another event: by a timer, or with something else. */
static inline void amb_rhythm_left(struct amb_rhythm *rhythm, int64_t now_ns)
{
    if (rhythm->since_ns != 0 && now_ns - rhythm->last_ns >= AMB_RHYTHM_SOON_NS) {
        uint32_t needed = rhythm->needed != 0 ? rhythm->needed : AMB_RHYTHM_MIN;
        rhythm->needed = needed < AMB_RHYTHM_MAX ? 2 * needed : AMB_RHYTHM_MAX;
        rhythm->soon = 0;
    }
    rhythm->since_ns = 0;
}
