/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest of many readers of a log. A topic may have thousands, and asks for the slowest with
 * each batch, so the answer is remembered. A position only grows. While the slowest reader stands,
 * and none has come behind it, it still is the slowest, and no other is looked at.
 *
 * If amb_slowest_is_known says no, begin anew with is_known alone set, and look at each reader.
 * amb_slowest_came and _went say what positions do not show.
 *
 * Threads: the readers' worker. Memory: none; a position must be there until amb_slowest_went.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_slowest {
    bool is_known;         /* false: all readers are to be looked at */
    const uint64_t *where; /* the slowest reader's position; NULL: there is no reader */
    uint64_t position;     /* ... when it was found */
};

static inline bool amb_slowest_is_known(const struct amb_slowest *slowest)
{
    return slowest->is_known && (slowest->where == NULL || *slowest->where == slowest->position);
}

static inline void amb_slowest_look(struct amb_slowest *slowest, const uint64_t *position)
{
    if (slowest->where == NULL || *position < slowest->position) {
        slowest->where = position;
        slowest->position = *position;
    }
}

/* A reader has begun, at that position. */
static inline void amb_slowest_came(struct amb_slowest *slowest, uint64_t position)
{
    if (slowest->where == NULL || position < slowest->position) {
        slowest->is_known = false;
    }
}

/* The reader that has its position there ends. */
static inline void amb_slowest_went(struct amb_slowest *slowest, const uint64_t *position)
{
    if (slowest->where == position) {
        slowest->is_known = false;
    }
}
