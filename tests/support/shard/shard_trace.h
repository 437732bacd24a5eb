/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace on all shards of a harness, and questions to its records.
 * Threads: one. Memory: the trace is the test's, until harness_disarm.
 */
#pragma once

#include "broker/shard/shard.h"
#include "broker/shard/trace.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Of the topics that the harness has. */
static inline struct amb_trace *harness_arm(struct shard_harness *h, const char *pattern,
                                            uint32_t first, uint32_t batches)
{
    struct amb_trace *trace = amb_trace_create(pattern, AMB_TENANT_ANY, first, batches, h->count);
    assert_non_null(trace);
    for (uint32_t i = 0; i < h->topic_count; i++) {
        amb_trace_topic(trace, i, 0, h->names[i], (uint32_t)strlen(h->names[i]));
    }
    for (unsigned i = 0; i < h->count; i++) {
        assert_true(amb_trace_arm(&h->shards[i], trace));
    }
    return trace;
}

static inline void harness_disarm(struct shard_harness *h, struct amb_trace **trace)
{
    for (unsigned i = 0; i < h->count; i++) {
        amb_trace_disarm(&h->shards[i], *trace);
        assert_false(h->shards[i].trace.is_watching);
    }
    amb_trace_destroy(trace);
}

/* Records of that stage and batch (0: any) in all parts; *last (may be NULL): one of them. */
static inline unsigned harness_noted(const struct amb_trace *trace, enum amb_trace_stage stage,
                                     unsigned batch, struct amb_trace_record *last)
{
    unsigned count = 0;
    for (unsigned i = 0; i < trace->part_count; i++) {
        const struct amb_trace_part *part = trace->parts[i];
        for (uint32_t k = 0; k < atomic_load(&part->count); k++) {
            if (part->records[k].stage == stage &&
                (batch == 0 || part->records[k].batch == batch)) {
                count++;
                if (last != NULL) {
                    *last = part->records[k];
                }
            }
        }
    }
    return count;
}
