/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs are made and undone in slices. The later of the two makes a pair. A topic that wakes
 * attaches the subscriptions that are there (directory_wake.c). A subscription attaches, slice by
 * slice, the topics that were awake before it, by their places in directory->by_cell. The
 * publishers of quiet topics are told that it counts (directory_counts.c). The slices that are
 * still to come are a chore.
 *
 * Threads: the control thread. Memory: an allocation a chore.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* Pairs of one subscription that are made or undone at once. The rest are a chore. */
#define AMB_PAIRS_NOW 256u
#define AMB_PAIRS_FEW 8u     /* the same, where a round has had AMB_PAIRS_UNDER_WAY at once */
#define AMB_PAIRS_SLICE 128u /* pairs of a chore, each time that it has its turn */
#define AMB_PAIRS_SLICES 4u  /* slices of chores in a round */

/* Once a round, some of each: makes pairs of topics that wake, makes and undoes those of chores,
 * and tells the counts of quiet topics. */
void amb_directory_work(struct amb_directory *directory);
/* May amb_directory_work do more at once? Else answers to orders come first. */
bool amb_directory_is_busy(const struct amb_directory *directory);

/* A subscription with a wildcard comes: pairs with the topics that were there before it. Returns
 * how many orders were posted that `done` shall hear of. */
unsigned amb_pairs_come(struct amb_directory *directory, struct amb_dir_sub *sub,
                        amb_order_done_fn done, void *context);
void amb_pairs_leave(struct amb_directory *directory, struct amb_dir_sub *sub);
void amb_pairs_fini(struct amb_directory *directory);
