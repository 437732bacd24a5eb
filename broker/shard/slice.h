/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A piece of a batch as a batch of its own. It is for a reader by copy that gets a part of the
 * batch only, and for one message that outlives its neighbours.
 * Threads: the shard's worker. Memory: an entry and a buffer of that shard's.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_shard;

/* Messages first .. first+count-1 of an entry in host memory, in memory of the shard's own, with
 * one reference; it is in no log. NULL: no memory. */
struct amb_entry *amb_slice_copy(struct amb_shard *shard, const struct amb_entry *entry,
                                 uint32_t first, uint32_t count);
/* Bytes of the payloads of messages from .. to-1, padded, where they follow each other. */
uint64_t amb_slice_data_between(const struct amb_entry *entry, uint32_t from, uint32_t to);
/* Bytes of the property blobs before message `index`, from where they begin. */
uint32_t amb_slice_blobs_before(const struct amb_entry *entry, uint32_t index);
/* ... the present one. */
const uint8_t *amb_slice_blobs(const struct amb_entry *entry);
