/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of a subscription with a wildcard and a topic that it reads: counted, bounded, and made and
 * undone in slices.
 *
 * A subscription has the ids of the topics that it was attached to, so its end undoes just those. A
 * topic that leaves stays in these lists. Its id names nothing from then on, and goes when the list
 * is full or at its limit. The later of the two makes a pair. A topic that wakes attaches the
 * subscriptions that are there (directory_wake.c). A subscription attaches, slice by slice, the
 * topics that were awake before it, by their places in directory->by_slot. The publishers of quiet
 * topics are told that it counts (directory_counts.c). The slices that are still to come are a
 * chore.
 *
 * Threads: the control thread. Memory: 4 bytes a pair; an allocation a chore.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* Pairs of one subscription that are made or undone at once. The rest are a chore. */
#define AMB_PAIRS_NOW 256u
#define AMB_PAIRS_FEW 8u     /* the same, where a round has had AMB_PAIRS_UNDER_WAY at once */
#define AMB_PAIRS_SLICE 128u /* pairs of a chore, each time that it has its turn */
#define AMB_PAIRS_SLICES 4u  /* slices of chores in a round */

typedef void (*amb_pair_fn)(struct amb_directory *directory, struct amb_dir_sub *sub,
                            struct amb_dir_topic *topic, void *arg);

/* With one reference. party: or NULL. NULL: no memory. */
struct amb_pair_account *amb_pair_account_create(void *owner, struct amb_party *party);
void amb_pair_account_unref(struct amb_pair_account **account);
/* Before a subscription comes: the key of the limit that its pairs would exceed; NULL: none. */
const char *amb_directory_lacks_pairs(struct amb_directory *directory,
                                      const struct amb_pair_account *account, const char *pattern,
                                      size_t len);
/* Once a round, some of each: makes pairs of topics that wake, makes and undoes those of chores,
 * and tells the counts of quiet topics. */
void amb_directory_work(struct amb_directory *directory);
/* May amb_directory_work do more at once? Else answers to orders come first. */
bool amb_directory_is_busy(const struct amb_directory *directory);

/* For the directory's own files: */
/* May the subscription have one more pair? Else sub->over names the limit, and
 * the subscription is listed in directory->over. */
bool amb_pairs_have_room(struct amb_directory *directory, struct amb_dir_sub *sub);
/* Makes room to note one more pair. False: no memory. */
bool amb_pairs_reserve(struct amb_directory *directory, struct amb_dir_sub *sub);
void amb_pairs_note(struct amb_directory *directory, struct amb_dir_sub *sub,
                    struct amb_dir_topic *topic);
/* The topic leaves, and at the end again: messages that have come late may have woken it. */
void amb_pairs_topic_left(struct amb_directory *directory, struct amb_dir_topic *topic);
/* A subscription with a wildcard comes: pairs with the topics that were there before it. Returns
 * how many orders were posted that `done` shall hear of. */
unsigned amb_pairs_come(struct amb_directory *directory, struct amb_dir_sub *sub,
                        amb_order_done_fn done, void *context);
void amb_pairs_leave(struct amb_directory *directory, struct amb_dir_sub *sub);
void amb_pairs_each(struct amb_directory *directory, struct amb_dir_sub *sub, amb_pair_fn fn,
                    void *arg);
void amb_pairs_fini(struct amb_directory *directory);
