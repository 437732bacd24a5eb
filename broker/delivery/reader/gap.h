/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that are missing before a reader's next delivery, and why.
 *
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_cursor;

struct amb_gap {
    uint64_t lost;
    uint64_t expired, purged; /* of these */
    enum amb_loss why;
    enum amb_loss other; /* why those are lost that are neither */
};

/* How many are neither. */
static inline uint64_t amb_gap_others(const struct amb_gap *gap)
{
    return gap->lost - gap->expired - gap->purged;
}

/* The cursor's next delivery begins with seq, and something before it is missing; how much, is
 * known. Changes nothing. */
void amb_gap_look(const struct amb_cursor *cursor, uint64_t seq, struct amb_gap *out);
