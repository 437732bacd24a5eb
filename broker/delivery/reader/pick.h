/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a log that a reader gets, where that is not simply all of them. It came in the
 * middle of a batch, its policy leaves some out, it has a filter, or their time is over. The
 * forwarder asks only for cursors that are picky and logs in which messages expire.
 *
 * Messages that a reader does not get show as a gap in the sequence numbers before its next
 * delivery. So the count is exact whatever the reason. Messages that its filter does not pass are
 * no gap. The log may have dropped messages before they were looked at, and nobody knows whether
 * they would have passed. All of these are a gap.
 *
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#include "broker/delivery/reader/gap.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_cursor;
struct amb_entry;

/* Takes the cursor into the entry to its first message: earlier ones are older than its
 * subscription. False: all of it is. */
bool amb_pick_enter(struct amb_cursor *cursor, const struct amb_entry *entry);

/* Might amb_pick_run leave something out for it? */
bool amb_pick_chooses(const struct amb_cursor *cursor);

#define AMB_PICK_LATER UINT32_MAX

/* Takes the cursor over messages that its filter does not pass and those that have expired; returns
 * the index behind the next run of others. 0: nothing is left of the entry. AMB_PICK_LATER: its
 * filter cannot be asked now; its topic is walked again when it can (sift.h). */
uint32_t amb_pick_run(struct amb_cursor *cursor, const struct amb_entry *entry, int64_t now_ns);

/*
 * AMB_SLOW_LATEST. True: the cursor has gone on to a newer message, look again. False: take what is
 * between cursor->within and *end, which may be less now.
 */
bool amb_pick_latest(struct amb_cursor *cursor, const struct amb_entry *entry, uint32_t *end);

/* AMB_SLOW_DROP_NEWEST, what is up to `end` could not be taken: is it left out? Else it waits: for
 * the link, not for the reader. */
bool amb_pick_is_dropped(const struct amb_cursor *cursor, const struct amb_entry *entry,
                         uint32_t end);

/* AMB_SLOW_DISCONNECT: it would have lost something. */
void amb_pick_disconnect(struct amb_cursor *cursor);

/* The cursor's next delivery begins with seq, and something before it is missing: what it shall be
 * told. Counts it. */
void amb_pick_gap(struct amb_cursor *cursor, uint64_t seq, struct amb_gap *out);
/* The same without counting it, for a queue. */
void amb_pick_loss(struct amb_cursor *cursor, uint64_t seq, struct amb_gap *out);
