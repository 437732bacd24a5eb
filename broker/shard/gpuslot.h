/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in GPU memory for messages that a link fetches there (amb_ingest_device). They are ranges
 * of the pools that a worker takes for itself, cut in slots of one size each. To everybody else
 * they are lease segments whose client has gone: a message keeps its slot until its last reader is
 * done.
 *
 * All workers together have at most half of each pool, and a worker gives back what it has not used
 * for a second. The first pool with room is taken: the readers are not known here, nor would one
 * GPU suit all.
 *
 * UCX hands the peer of a transfer a handle of the memory, which for a GPU's is all of its pool and
 * writable. A peer with a ucx link is trusted with this process (transports.trusted), and so with
 * that. Where memory.cuda.trust says that nobody is, links move nothing of it.
 *
 * Threads: the shard's worker. Nothing is asked of a driver. Memory: one allocation a range.
 */
#pragma once

#include "broker/shard/shard.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_commit;
struct amb_config;
struct amb_topic_rule;
struct amb_segment_lease;

/* May links move payloads from and to the pools? */
bool amb_gpuslot_may_link(const struct amb_config *config);
/* ... and fetch there what is published to a topic of that rule? Not what is copied when it comes,
 * and not where the newest message of a key stays for as long as the topic. */
bool amb_gpuslot_suits(const struct amb_config *config, const struct amb_topic_rule *rule);

/* With a free slot for len bytes. NULL: none, which is counted with its reason. */
struct amb_segment_lease *amb_gpuslot_find(struct amb_shard *shard, uint64_t len);
/* The commit, of one message of len bytes, has such a slot from here on, until amb_commit_over.
 * *offset, which stays where it is: where in the lease's segment. */
void amb_gpuslot_take(struct amb_segment_lease *lease, uint64_t len, struct amb_commit *commit,
                      uint64_t *offset);

/* A transfer into it has failed. UCX may have its sender write to a message's place, and the sender
 * may be at it still. The range takes no more, and is kept from others for some seconds. */
void amb_gpuslot_spoil(struct amb_segment_lease *lease);

/* Gives back what is not used. */
void amb_gpuslot_trim(struct amb_shard *shard);
static inline void amb_gpuslot_tick(struct amb_shard *shard)
{
    if (!amb_list_is_empty(&shard->gpuslots.leases) && shard->now_ns >= shard->gpuslots.due_ns) {
        amb_gpuslot_trim(shard);
    }
}
