/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cursor reads before its log: messages out of a topic's past, far apart.
 * Threads: made at the topic's home, then the cursor's worker. Memory: one allocation, and a
 * reference on each entry that was not read.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_shard;

struct amb_prelude {
    uint32_t count, next;
    struct amb_entry *entries[];
};

static inline struct amb_entry *amb_prelude_entry(const struct amb_prelude *prelude)
{
    return prelude->entries[prelude->next];
}
/* The next one has been read. At the end *prelude is freed, and NULL. */
void amb_prelude_advance(struct amb_prelude **prelude, struct amb_shard *shard);
void amb_prelude_free(struct amb_prelude **prelude, struct amb_shard *shard);
/* Makes it another worker's: entries become what `shard` lends. Without memory for that it is
 * freed.
 */
void amb_prelude_lend(struct amb_prelude **prelude, struct amb_shard *shard);
