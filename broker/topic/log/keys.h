/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest message of each key of a topic (retain.keys). At home it keeps those messages, also
 * when the log has given them up. A message that shared a batch or lies in a publisher's slots is
 * cut out then (slice.h), so that one message keeps no other's memory. Elsewhere it knows their
 * numbers.
 *
 * Keys are found by a hash with a secret of the topic's own, never by the one that publishers send.
 * So nobody can have a search walk a chain of all keys.
 *
 * There are at most so many keys, and the messages kept outside the log take at most as much as the
 * log may hold. Beyond either the key goes that has had nothing new for longest. Where memory is
 * short half of them go.
 *
 * Threads: the topic's worker. Memory: one allocation a key, when it comes first.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_entry;
struct amb_keys;
struct amb_shard;

/* keeps: messages, not only their numbers. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_keys_create(struct amb_shard *shard, uint32_t max,
                                               uint64_t max_bytes, bool keeps,
                                               struct amb_keys **out);
void amb_keys_destroy(struct amb_keys **keys);
/* Other limits; keys that are too many go, oldest first. */
void amb_keys_limit(struct amb_keys *keys, uint32_t max, uint64_t max_bytes);
/* It has been appended to the log. Messages in GPU memory are not kept. */
void amb_keys_note(struct amb_keys *keys, struct amb_entry *entry);
/* It leaves the log: a message that is the newest of its key stays here. */
void amb_keys_gone(struct amb_keys *keys, struct amb_entry *entry);
/* The log has the same messages in another place now. */
void amb_keys_moved(struct amb_keys *keys, const struct amb_entry *from, struct amb_entry *to);
/* Is there a newer one with the key of that message, whose properties begin at blob? */
bool amb_keys_is_superseded(const struct amb_keys *keys, const struct amb_entry *entry,
                            uint32_t index, const uint8_t *blob);
/* Messages older than the topic's time to live go. */
void amb_keys_expire(struct amb_keys *keys, int64_t now_ns, int64_t ttl_ns);
/* Memory is short: half of them go, or so many. False: there is nothing to be given up. */
bool amb_keys_shed(struct amb_keys *keys, uint32_t most);
uint64_t amb_keys_count(const struct amb_keys *keys);
/* The most keys that one bucket has: what a search may cost. Walks all buckets. */
uint32_t amb_keys_longest_chain(const struct amb_keys *keys);
/* Of messages that are kept and have numbers *from .. upto-1, gives the oldest, alone in an entry,
 * with a reference of this shard's. *from is then behind it. ENOTFOUND: there is none. ENOMEM: it
 * cannot be cut out of its batch, and *from is behind it. */
AMB_MUST_CHECK enum amb_status amb_keys_read(struct amb_keys *keys, uint64_t *from, uint64_t upto,
                                             struct amb_entry **out);
