/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of a subscription with a wildcard and a topic that it reads: the list of them.
 *
 * A subscription has the ids of the topics that it was attached to, so its end undoes just those. A
 * topic that leaves stays in these lists. Its id names nothing from then on, and goes when the list
 * is full or its client is at its limit. Pairs are made and undone by directory_chores.c and, where
 * a topic wakes, directory_wake.c.
 *
 * Threads: the control thread. Memory: 4 bytes a pair.
 */
#pragma once

#include "broker/control/directory/directory.h"

typedef void (*amb_pair_fn)(struct amb_directory *directory, struct amb_dir_sub *sub,
                            struct amb_dir_topic *topic, void *arg);

/* Makes room to note one more pair. False: no memory. */
bool amb_pairs_reserve(struct amb_directory *directory, struct amb_dir_sub *sub);
void amb_pairs_note(struct amb_directory *directory, struct amb_dir_sub *sub,
                    struct amb_dir_topic *topic);
/* The topic leaves, and at the end again: messages that have come late may have woken it. */
void amb_pairs_topic_gone(struct amb_directory *directory, struct amb_dir_topic *topic);
void amb_pairs_each(struct amb_directory *directory, struct amb_dir_sub *sub, amb_pair_fn fn,
                    void *arg);
/* Forgets those of topics that have gone. */
void amb_pairs_compact(struct amb_directory *directory, struct amb_dir_sub *sub);
