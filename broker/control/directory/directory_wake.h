/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A quiet topic wakes. Its first message waits at home until all who read it by a wildcard have a
 * cursor in it. Or it waits until home knows what to lend to their workers. They get it in slices;
 * one topic is served after the other. Parties that publish take turns, so a party that wakes
 * thousands of topics delays nobody who wakes one.
 *
 * Threads: the control thread. Memory: none but that of pairs.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* A quiet topic's first message has come: its readers with a wildcard get their cursors, then its
 * home goes on (amb_order_topic_awake). */
void amb_directory_heard(struct amb_directory *directory, const struct amb_topic *topic);

/* For the directory's own files: */
/* One more slice; how many may be under way bounds it. */
void amb_directory_wake(struct amb_directory *directory);
bool amb_directory_may_wake(const struct amb_directory *directory);
