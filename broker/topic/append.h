/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry comes into a topic's log. Room is made as the topic's rule says, the entry gets its
 * numbers and its end, and the topic is marked for a walk.
 *
 * Threads: the topic's worker. Memory: the log grows (log.h).
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_entry;
struct amb_topic;

/*
 * Appends with the topic's limits. Takes over the caller's reference on AMB_OK. EREJECTED, ELIMIT,
 * ENOMEM: the entry is still the caller's. first_seq as in amb_log_append.
 */
AMB_MUST_CHECK enum amb_status amb_topic_append(struct amb_topic *topic, struct amb_entry *entry,
                                                uint64_t first_seq);
/* Something in its log goes by age, or will. */
void amb_topic_watch(struct amb_topic *topic);
