/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead letters: a message that no member of a queue could handle becomes a message of
 * $DLQ.<its topic> of its tenant, with four properties more:
 *
 *   $reason       why
 *   $deliveries   how often it was delivered
 *   $topic        its topic
 *   $seq          its number there
 *
 * Numbers are decimal text; the publisher's own properties stay. Small payloads are copied, large
 * ones stay where they are. A message that dies on a $DLQ topic is gone; it is counted as all
 * others are.
 *
 * Threads: the queue's worker; the topic is found by the control thread, through an upcall of the
 * shard. Memory: an entry a message.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_shard;
struct amb_topic;

/* Message `index` of an entry of that topic is given up. */
void amb_deadletter(struct amb_shard *shard, const struct amb_topic *of, struct amb_entry *entry,
                    uint32_t index, uint32_t deliveries, const char *reason);
