/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles, chosen by the client, taken in turn: one that was given back is used again as late as
 * possible, so that nothing the broker said about its former owner is still on its way then.
 * Threads: under the connection's lock.
 */
#pragma once

#include "wire/codec/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* *next: where to look first; *high: one more than the highest handle ever taken. */
static inline bool amb_handle_take(bool taken[AMB_HANDLES_MAX], uint32_t *next, uint32_t *high,
                                   uint32_t *out)
{
    for (uint32_t i = 0; i < AMB_HANDLES_MAX; i++) {
        uint32_t at = (*next + i) % AMB_HANDLES_MAX;
        if (!taken[at]) {
            taken[at] = true;
            *next = (at + 1) % AMB_HANDLES_MAX;
            *high = at + 1 > *high ? at + 1 : *high;
            *out = at;
            return true;
        }
    }
    return false;
}
