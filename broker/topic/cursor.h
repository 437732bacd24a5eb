/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors: the places of local readers in a topic. A cursor is in one of its topic's two walks:
 * those that keep up, and those that are behind. Or it is parked: then no walk comes to it until it
 * is woken.
 *
 * Threads: the topic's worker. Memory: a cursor belongs to its subscription or queue.
 */
#pragma once

#include "broker/topic/state/cursor.h"

struct amb_begun;
struct amb_subscription;

/* Starts reading. At home: from begun->position; of a shadow: with begun->seq, which has not been
 * lent yet. */
void amb_cursor_attach(struct amb_cursor *cursor, struct amb_topic *topic,
                       struct amb_subscription *sub, enum amb_slow slow, int64_t block_limit_ns,
                       const struct amb_begun *begun);
/* No walk comes to it until it is woken. It is not parked yet. */
void amb_cursor_park(struct amb_cursor *cursor);
/* Parked or not: the next walk comes to it. */
void amb_cursor_wake(struct amb_cursor *cursor);
/* It is not parked: from here on in the walk of those that keep up, or that are behind. */
void amb_cursor_sort(struct amb_cursor *cursor, bool is_behind);
/* Its policy is spill, or is not any more. */
void amb_cursor_spill(struct amb_cursor *cursor, bool spills);
/* The entry that it reads next, if position is below the log's end or it has a prelude. NULL: the
 * prelude has to be recalled first (recall.h). */
struct amb_entry *amb_cursor_entry(const struct amb_cursor *cursor);
/* That has been read, or left out. */
void amb_cursor_advance(struct amb_cursor *cursor);
/* It has come to its end, or goes: a cursor that gave way to it is walked again. */
void amb_cursor_pass_on(const struct amb_cursor *cursor);
/* Harmless if it is not attached. */
void amb_cursor_detach(struct amb_cursor *cursor);
/* Walks are to come to all of the topic's from here on. */
void amb_cursor_unpark_all(struct amb_topic *topic);
