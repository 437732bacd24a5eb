/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a log is history: what a topic's `retain` keeps behind its readers.
 *
 *   lo ........ read by all ........ hi
 *   |  history  |  somebody's still  |
 *
 * Threads: the topic's home. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_log;
struct amb_shard;
struct amb_topic_rule;

/* The log is not empty: is its oldest entry more than shall be kept? */
bool amb_retain_is_over(const struct amb_log *log, const struct amb_topic_rule *rule,
                        const struct amb_shard *shard);
/* The sequence number with which history begins; the next one if there is none. */
uint64_t amb_retain_floor(const struct amb_log *log, const struct amb_topic_rule *rule);
