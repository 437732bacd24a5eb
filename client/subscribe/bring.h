/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are taken, and payloads brought to where they are wanted; see landing.h.
 * Threads: any, no lock held.
 */
#pragma once

#include "client/subscribe/arrivals.h"

/* As amb_sub_take, payloads brought to where they are wanted; 0 also if there is no memory. */
size_t amb_landing_take(struct amb_sub *sub, struct amb_msg **out, size_t max);

/* Takes the next messages, at most max; returns how many, 0: none is ready. */
static inline size_t amb_sub_take(struct amb_sub *sub, struct amb_msg **out, size_t max)
{
    return __builtin_expect(sub->landing != NULL, 0) ? amb_landing_take(sub, out, max)
                                                     : amb_sub_take_plain(sub, out, max);
}
