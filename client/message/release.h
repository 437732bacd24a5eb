/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries of a subscription that were given back, and how the broker hears of them. Deliveries
 * are numbered 1, 2, 3 and so on. While they come back about in order, one counter says "all up to
 * n" and costs nothing. When one is held for long, those behind it are reported as ranges, once
 * they tie up more than an eighth of the credit.
 *
 *        1 2 3 4 5 6 7 8 9
 *        R R R h R R h R .      upto = 3; stuck: 5-6 and 8
 *
 * Threads: owner only. Memory: one ring that doubles.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_release_cell {
    uint64_t bytes;
    uint32_t msgs;
    uint8_t state;
};

struct amb_release {
    struct amb_release_cell *cells; /* of upto + 1 ..., cell n at n & mask */
    uint64_t mask;                  /* capacity - 1; 0 and cells NULL: empty */
    uint64_t upto, last; /* 1..upto are back; `last` is the newest delivery that arrived */
    uint64_t stuck_msgs, stuck_bytes; /* back, but neither below upto nor reported as a range */
    uint64_t limit_msgs, limit_bytes;
    uint64_t scan; /* where to look for the next range */
};

void amb_release_init(struct amb_release *release, uint64_t credit_msgs, uint64_t credit_bytes);
void amb_release_fini(struct amb_release *release);
/* From here on all that comes back out of order is reported at once: higher ones overtake as a
 * rule. */
static inline void amb_release_at_once(struct amb_release *release)
{
    release->limit_msgs = release->limit_bytes = 0;
}
/* Delivery last + 1 has arrived. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_release_arrived(struct amb_release *release, uint32_t msgs,
                                                   uint64_t bytes);
/* Delivery `number` is back, once. True if `upto` has moved. */
bool amb_release_back(struct amb_release *release, uint64_t number);
/* The next range to report, if enough is stuck or ranges of this round are left: call until false.
 */
bool amb_release_range(struct amb_release *release, uint64_t *first, uint64_t *count);
