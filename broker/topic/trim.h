/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries leave a topic's log: those that every reader has passed, those that must make room, and
 * history that is given up. An entry with a tally (tally.h) has it closed here for this log.
 *
 * Threads: the topic's worker. Memory: gives references back, and takes none.
 */
#pragma once

#include "broker/topic/topic.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_topic_tail;

/* Drops what every reader has passed. */
void amb_topic_trim(struct amb_topic *topic);
/* Drops entries that only non-holding readers still want, or some of them; true if there were any.
 * *budget: the most entries to drop, lowered by those and by the looks at readers; NULL: no limit.
 */
bool amb_topic_shed(struct amb_topic *topic, uint32_t *budget);
/* Gives up history before that position; messages that a reader still wants count as dropped. */
void amb_topic_forget(struct amb_topic *topic, uint64_t upto);
/* Position up to which nobody needs anything: history, where the topic keeps some. */
uint64_t amb_topic_needed_from(struct amb_topic *topic);
/* Messages that somebody still needs: all but history. */
uint64_t amb_topic_unread(struct amb_topic *topic);

/* For append.c and the topic's end: */
/* The same as amb_topic_trim. wanted: the position from which on somebody wants to read. */
void amb_trim_to(struct amb_topic *topic, uint64_t wanted);
/* May an entry before that position be dropped now? */
bool amb_trim_may_drop(const struct amb_topic *topic, uint64_t before);
/* The oldest entry is dropped, wanted or not; wanted messages are counted. */
void amb_trim_oldest(struct amb_topic *topic, uint64_t wanted);
/* The same where readers spill, whose tail that was before anything went. */
void amb_trim_beside(struct amb_topic *topic, const struct amb_topic_tail *tail, uint64_t wanted);
/* The oldest entry leaves the log, and nobody counts it. */
void amb_trim_pop(struct amb_topic *topic);
/* The log's newest entry: its tally is open until all readers have passed it. */
void amb_trim_tally(struct amb_topic *topic, struct amb_entry *entry);
