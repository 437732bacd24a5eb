/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many subscriptions match a topic, and which of them read in place: counted, and told to the
 * topic's home and its publishers.
 *
 * Of an awake topic each subscription is counted as it connects, and all changes of a round are
 * told with it. Of a quiet topic those with a wildcard are counted by their patterns, when that is
 * asked and the patterns have changed since. Its publishers hear two things at once, before a
 * subscription counts as active. Somebody reads it at all, and their batches have to be copied from
 * now on. A walk over the quiet topics finds out all else. It begins in the same round where there
 * are few, and four times a second where there are many.
 *
 * A match costs a step for each branch of the patterns' tree that it comes to. A count has so many
 * steps (COUNT_STEPS), past which the readers are "at least so many", and their users anybody. Of
 * subscriptions that are narrowed each is looked at, up to COUNT_LOOKS.
 *
 * Threads: the control thread. Memory: orders.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* How many subscriptions match it; of a quiet one at least as many. */
uint32_t amb_directory_matched(struct amb_dir_topic *topic);
/* Are the publisher's leased batches copied, for another user would read them in place? */
bool amb_directory_copies(const struct amb_dir_publisher *publisher);
/* Tells homes and publishers how many read their topics. That happens once for all changes since
 * the last time, and before the answers to those are read. Of quiet topics: directory_counts.c. */
void amb_directory_tell(struct amb_directory *directory);

/* For the directory's own files: */
/* The topic's home, and its publishers, are told how many read it. */
void amb_directory_tell_topic(struct amb_directory *directory, struct amb_dir_topic *topic);
/* The number of the topic's readers has changed: its publishers are told this round. */
void amb_directory_count_changed(struct amb_directory *directory, struct amb_dir_topic *topic);
/* One with a wildcard comes to a quiet topic: publishers are told what they must know before it
 * counts as active. Returns how many. */
unsigned amb_directory_come_quiet(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  const struct amb_dir_sub *comes);
/* Some of the quiet topics whose number has changed are told. */
void amb_directory_count(struct amb_directory *directory);
bool amb_directory_may_count(const struct amb_directory *directory);
