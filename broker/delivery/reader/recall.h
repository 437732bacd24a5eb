/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a cursor gets the entries of its prelude. At the topic's home it takes one message at a time.
 * On another worker it asks home for a slice of them, by mail. A cursor that cannot go on gives up
 * what it has taken, and asks for it again. So readers that stand still pin nothing, but for one
 * slice a session, whose link is full. Without that a busy link would always be full again when a
 * slice comes.
 *
 * Threads: the cursor's worker; a slice is made at home. Memory: the prelude's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_cursor;
struct amb_prelude;

/* For a cursor whose prelude has no entry. True if it may look again, at the next one or behind its
 * prelude; false if it must wait, and its topic is marked then. max: messages that it may have now,
 * at least 1. */
bool amb_recall(struct amb_cursor *cursor, uint64_t max);
/* The cursor cannot go on: it gives its slice up. Harmless without a prelude. */
void amb_recall_let_go(struct amb_cursor *cursor);
/* The cursor cannot go on because its link is full: one cursor of a session may keep its slice
 * (*place). Others, and slices that hold a publisher's slots, are given up. */
void amb_recall_keep(struct amb_cursor *cursor, struct amb_prelude **place);
