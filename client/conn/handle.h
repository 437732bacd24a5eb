/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles, chosen by the client, taken in turn. When a handle has a new owner, frames about the
 * former owner may still be on their way, in both directions. So all numbers of a handle
 * go on where the last owner left off, at both ends. Old numbers are known by being small.
 *
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/codec/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the last owners of a handle left off. */
struct amb_handle_numbers {
    uint64_t batches, bytes; /* sent by the publisher */
    uint64_t delivered;      /* to the subscription */
};

struct amb_pub;
struct amb_sub;

/* The publishers and subscriptions of a connection, by handle. */
struct amb_conn_handles {
    struct amb_pub *pubs[AMB_HANDLES_MAX];
    struct amb_sub *subs[AMB_HANDLES_MAX];
    bool pub_taken[AMB_HANDLES_MAX], sub_taken[AMB_HANDLES_MAX];
    uint32_t pub_next, sub_next; /* where amb_handle_take looks first */
    uint32_t pub_high, sub_high; /* one more than the highest handle ever taken */
    uint64_t pubs_opened;
    struct amb_handle_numbers numbers[AMB_HANDLES_MAX];
};

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
