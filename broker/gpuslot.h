/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in GPU memory for messages that a link fetches there (amb_ingest_device): ranges of the
 * pools that a worker takes for itself, cut in slots of one size each. To everybody else they are
 * lease segments whose client has gone: a message keeps its slot until its last reader is done.
 *
 * A worker has at most half of each pool, and gives back what it has not used for a second. The
 * first pool with room is taken: who will read is not known here, nor would one GPU suit all.
 *
 * Threads: the shard's worker. Nothing is asked of a driver. Memory: one allocation a range.
 */
#pragma once

#include "broker/shard.h"

#include <stdint.h>

struct amb_commit;
struct amb_lease;

/* With a free slot for len bytes. NULL: none, which is counted with its reason. */
struct amb_lease *amb_gpuslot_find(struct amb_shard *shard, uint64_t len);
/* The commit, of one message of len bytes, has such a slot from here on, until amb_commit_over.
 * *offset, which stays where it is: where in the lease's segment. */
void amb_gpuslot_take(struct amb_lease *lease, uint64_t len, struct amb_commit *commit,
                      uint64_t *offset);

/* Gives back what is not used. */
void amb_gpuslot_trim(struct amb_shard *shard);
static inline void amb_gpuslot_tick(struct amb_shard *shard)
{
    if (!amb_list_is_empty(&shard->gpu_slots) && shard->now_ns >= shard->gpu_slots_ns) {
        amb_gpuslot_trim(shard);
    }
}
