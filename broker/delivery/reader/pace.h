/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription's own pace: at most so many messages and bytes a second, or history at the times
 * at which it came. Its deliveries wait here; the log, its policy and its credit are as ever.
 *
 * Messages under a limit may come AMB_PACE_BURST_NS early. A rate is kept over times longer than
 * that, and messages leave in groups rather than one by one.
 *
 * Threads: the shard's worker. Memory: one allocation a subscription that wants one.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_PACE_BURST_NS INT64_C(50000000)
#define AMB_PACE_RATE_MAX UINT64_C(1000000000000) /* of either; above it there is no limit */

struct amb_cursor;
struct amb_entry;
struct amb_shard;

struct amb_pace_options {
    uint64_t msgs, bytes; /* a second; 0: no limit */
    bool is_original;     /* each message as long after the first one as it came */
};

struct amb_pace {
    struct amb_pace_options options;
    struct amb_shard *shard;
    struct amb_list_node *cursors; /* the subscription's: struct amb_cursor.of_sub */
    struct amb_list_node node;     /* in shard->pace.waiting, while it waits for due_ns */
    int64_t due_ns;
    int64_t msgs_ns, bytes_ns; /* up to when the given messages are paid for */
    bool has_begun;
    int64_t shift_ns; /* original: from a message's time to when it is due */
};

/* NULL in *out: these options ask for nothing. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_pace_create(struct amb_shard *shard,
                                               struct amb_list_node *cursors,
                                               const struct amb_pace_options *options,
                                               struct amb_pace **out);
void amb_pace_destroy(struct amb_pace **pace);
/* The cursor is about to take the messages from cursor->within to *end: as many of them as are due,
 * by less in *end. False: none is, and the topic is walked again when one will be. */
bool amb_pace_ask(struct amb_pace *pace, const struct amb_cursor *cursor,
                  const struct amb_entry *entry, uint32_t *end);
/* They have been given: those from index `first` to `end`. */
void amb_pace_spend(struct amb_pace *pace, const struct amb_entry *entry, uint32_t first,
                    uint32_t end);
/* Has the topics walked whose readers are due; returns when the next one is, by shard->now_ns. */
int64_t amb_pace_tick(struct amb_shard *shard);
