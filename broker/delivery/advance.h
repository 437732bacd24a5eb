/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reader goes on in one log: as far as its credit, its link and its share of the walk go. Three
 * kinds of readers:
 *
 *   plain     takes all; the short loop of amb_advance
 *   picky     may leave messages out: filters, preludes, time limits, pace, policies
 *   a queue   gives the messages to its members (acks/queue.h)
 *
 * A reader that cannot go on waits in its session's list (stalled) for credit or room.
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#define AMB_ADVANCE_RUN 512u /* entries that one reader is given, or leaves out, in one walk */

struct amb_cursor;
struct amb_topic;

/* The reader's part of a walk of its topic. */
void amb_advance(struct amb_topic *topic, struct amb_cursor *cursor);
