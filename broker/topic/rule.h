/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another configuration: a topic goes over to the rule that it has there, with what its log holds.
 *
 * Threads: the topic's worker. Memory: a reference to the configuration; keys, where they are kept
 * from here on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_config;
struct amb_topic;

/* Its rule holds from here on. Messages that came before have no keys, if none were kept. */
void amb_topic_use_config(struct amb_topic *topic, const struct amb_config *config);
/* At home: entries beyond the limits of the rule go, as when a message comes to a full log. A topic
 * that blocks or rejects keeps all that its readers hold. *budget: entries that may go now, and
 * goes down. False: there is more to do. True: the topic is marked, for publishers that may wait.
 */
bool amb_topic_settle(struct amb_topic *topic, uint32_t *budget);
