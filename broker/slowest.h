/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest of many readers, each known by where its position is kept. There may be thousands,
 * and the question comes with each batch, so it is remembered who that was. Readers only go
 * forward: while that one has not moved and nobody has come behind it, it still is the slowest, and
 * nobody else is looked at. Threads: the readers' worker. Memory: none; a reader that ends is to be
 * said.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_slowest {
    bool is_known;          /* or all are to be looked at: amb_slowest_look, one after the other */
    const uint64_t *reader; /* the position of that one; NULL: there is none */
    uint64_t position;      /* ... when it was found */
};

/* Is what was found last still so? */
static inline bool amb_slowest_is_known(const struct amb_slowest *slowest)
{
    return slowest->is_known && (slowest->reader == NULL || *slowest->reader == slowest->position);
}

/* One of all readers. */
static inline void amb_slowest_look(struct amb_slowest *slowest, const uint64_t *reader)
{
    if (slowest->reader == NULL || *reader < slowest->position) {
        slowest->reader = reader;
        slowest->position = *reader;
    }
}

/* There is a reader at that position who was not there before. */
static inline void amb_slowest_came(struct amb_slowest *slowest, uint64_t position)
{
    if (slowest->reader == NULL || position < slowest->position) {
        slowest->is_known = false;
    }
}

/* That reader is not there any more. */
static inline void amb_slowest_went(struct amb_slowest *slowest, const uint64_t *reader)
{
    if (slowest->reader == reader) {
        slowest->is_known = false;
    }
}
