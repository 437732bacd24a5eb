/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/observe in a shard: passes through its objects, and traces.
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
    int64_t due_ns;      /* a turn looks here then: at passes, or at traced batches in each turn */
    int64_t pass_due_ns; /* of the next part of a pass; INT64_MAX: nothing has moved */
    bool has_moved;      /* ... since the regular one began */
};

#define AMB_TRACES_MAX 4u /* armed at a time */

struct amb_entry;
struct amb_topic;
struct amb_trace;

/* broker/shard/trace.c */
struct amb_shard_trace {
    /* All readers of the log have passed the entry at that position, or it is dropped. Its tally,
     * with a ticket, is still there. amb_shard_init gives it. */
    void (*end)(struct amb_topic *topic, const struct amb_entry *entry, uint64_t position);
    struct amb_trace *armed[AMB_TRACES_MAX];
    uint32_t count;   /* of those; a batch asks with its head */
    bool is_watching; /* traced batches lie in logs of this shard */
};

/* After each change of pass_due_ns, and of what is watched. */
static inline void amb_shard_observe_gate(struct amb_shard_observe *observe, bool is_watching)
{
    observe->due_ns = is_watching ? INT64_MIN : observe->pass_due_ns;
}

static inline void amb_shard_observe_init(struct amb_shard_observe *observe)
{
    amb_list_init(&observe->asks);
    observe->due_ns = observe->pass_due_ns = INT64_MAX;
}
