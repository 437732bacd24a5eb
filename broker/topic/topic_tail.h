/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of topic.h that is about readers that spill (spill.h).
 *
 * Threads: the topic's worker.
 */
#pragma once

#include "broker/topic/topic.h"

/* The part of a log that readers that spill alone want: positions from .. upto-1. */
struct amb_topic_tail {
    uint64_t from, upto;
};

/* Of those that spill, and the slowest of the others. A reader of history counts with neither. */
void amb_topic_tail(const struct amb_topic *topic, struct amb_topic_tail *out);
/* Bytes of it, as its entries were charged when they came. */
uint64_t amb_topic_tail_bytes(const struct amb_topic *topic, const struct amb_topic_tail *tail);
/* Messages from position to hi, and those missing between them. */
uint64_t amb_topic_msgs_from(const struct amb_topic *topic, uint64_t position);
/* Do the others have more to read than the log may hold? */
bool amb_topic_is_over(const struct amb_topic *topic, const struct amb_topic_tail *tail);
/* Readers that have not passed that entry go on behind it, those that spill or all others. Their
 * losses show with their next messages. */
void amb_topic_skip(struct amb_topic *topic, uint64_t position, bool spilling);
