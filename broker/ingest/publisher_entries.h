/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that are reserved for a publisher's batches. Each batch takes an entry, however small it
 * is, and all entries of a worker are bounded. A window counts bytes. So a client that sends tiny
 * batches could take the entries that others need for what they were granted. Therefore a window
 * that opens reserves entries, too: twice as many as batches of the latest size would take.
 *
 *   - A batch that one is reserved for is taken, whatever else there is.
 *   - A batch beyond them is taken while that leaves what is reserved, and while its party has not
 *     used up its share (entry_share.h).
 *   - Reserved are at most an eighth of all, and for one session an eighth of what others leave of
 *     that. A client that opens windows and is silent keeps no more from others.
 *   - A session that has less than an equal part of that eighth gets it from those that have more.
 *     A client is told of its window, and not of its entries, so these can be taken back. Thus many
 *     silent sessions leave the next one its part.
 *
 * Threads: the session's worker. Memory: counted, not allocated.
 */
#pragma once

#include "broker/shard/entry_share.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_publisher;

struct amb_publisher_entries {
    struct amb_list_node node; /* of the shard's holders: some are reserved */
    uint32_t reserved;
    bool has_entry;   /* one was reserved for the batch that came last */
    uint64_t size;    /* bytes of a batch lately; 0: not known */
    uint64_t bytes;   /* received when that was measured, */
    uint64_t batches; /* ... and batches then, with the commits that came since */
};

/* Before the others, when the publisher's `received`, `batches` and `window` are set. */
void amb_publisher_entries_begin(struct amb_publisher *publisher);
/* How many of `size` bytes its window may stand open. Batches of the latest size that fill it take
 * a part of all entries at most, for a reader that stands keeps them. A small window may stand open
 * in any case. */
uint64_t amb_publisher_entries_window(const struct amb_publisher *publisher, uint64_t size);
/* How many more entries its party may have for windows (entry_share.h). 0: none opens further. */
size_t amb_publisher_entries_room(const struct amb_publisher *publisher);
/* Of the batch that came last, or of its window. */
struct amb_entry_claim amb_publisher_entries_claim(const struct amb_publisher *publisher);
/* Its window has opened further. */
void amb_publisher_entries_open(struct amb_publisher *publisher);
/* A batch or a commit has come, and is counted in `received` and `batches`. Sets has_entry. */
void amb_publisher_entries_take(struct amb_publisher *publisher);
/* Nothing comes any more. */
void amb_publisher_entries_close(struct amb_publisher *publisher);
