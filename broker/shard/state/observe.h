/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/observe in a shard: passes through its objects.
 *
 * Threads: the shard's worker. Memory: embedded in the shard.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* A walk through the tables of objects. */
struct amb_observe_pass {
    unsigned table;
    uint64_t at;
    uint64_t unlisted; /* objects for which there was no slot */
};

/* objects.c */
struct amb_shard_observe {
    struct amb_list_node asks; /* struct amb_objects_ask.node */
    struct amb_observe_pass asked, regular;
    int64_t due_ns; /* of the regular one's next part; INT64_MAX: nothing has moved */
    bool has_moved; /* ... since it began */
};

static inline void amb_shard_observe_init(struct amb_shard_observe *observe)
{
    amb_list_init(&observe->asks);
    observe->due_ns = INT64_MAX;
}
