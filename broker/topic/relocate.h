/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a log goes to another place: out of a GPU's memory, out of a publisher's slots.
 * The messages stay as they are, and so does the place in the log.
 * Threads: the shard's worker. Memory: of the shard's pool.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_entry;
struct amb_topic;

/* The entry at that position is replaced by its twin (twin.h). */
void amb_relocate_to_twin(struct amb_topic *topic, uint64_t position, struct amb_entry *twin);
/* The leased one at that position, in host memory, by a copy; if it reclaims, others give something
 * up for it, but not this topic. False: there is no memory for it. */
bool amb_relocate_leased(struct amb_topic *topic, uint64_t position, bool reclaims);
