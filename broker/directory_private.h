/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the four files of the directory share: directory.c has topics come and be read,
 * directory_wake.c wakes them, directory_pairs.c makes and undoes pairs in slices, and
 * directory_leave.c has topics leave that nobody uses.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/directory.h"

/* An order that nobody can do without; without memory the broker is at its end anyway, which is
 * logged, and this is NULL. */
struct amb_order *amb_directory_order(amb_order_fn run, amb_order_done_fn done, void *context);
/* NULL: the topic has left. */
struct amb_dir_topic *amb_directory_topic_of(const struct amb_directory *directory, uint32_t id);
/* The id of a topic that is gone may be given again: late. */
void amb_directory_id_give(struct amb_directory *directory, uint32_t id);
/* Pairs of one subscription that are made or undone at once. The rest are a chore. */
#define AMB_PAIRS_NOW 256u
#define AMB_PAIRS_FEW 8u          /* the same, where a round has had AMB_PAIRS_UNDER_WAY at once */
#define AMB_PAIRS_SLICE 128u      /* pairs of a chore, each time that it has its turn */
#define AMB_PAIRS_SLICES 4u       /* slices of chores in a round */
#define AMB_PAIRS_UNDER_WAY 1024u /* of slow_orders: past it, no chore has a turn */

typedef void (*amb_pair_fn)(struct amb_directory *directory, struct amb_dir_sub *sub,
                            struct amb_dir_topic *topic, void *arg);

/* directory.c, for directory_pairs.c. The first of a name by rank; NULL: there is none. */
struct amb_dir_topic *amb_directory_kin(struct amb_dir_topic *main, unsigned rank);
/* The subscription reads the topic, or does not any more; orders with an answer. */
unsigned amb_directory_connect(struct amb_directory *directory, struct amb_dir_topic *topic,
                               struct amb_dir_sub *sub, amb_order_done_fn done, void *context);
unsigned amb_directory_disconnect(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  struct amb_dir_sub *sub, amb_order_done_fn done, void *context);
/* The number of the topic's readers has changed: its publishers are told this round. */
void amb_directory_count_due(struct amb_directory *directory, struct amb_dir_topic *topic);
/* One with a wildcard comes to a quiet topic: publishers are told what they must know before it
 * counts as active. Returns how many. */
unsigned amb_directory_come_quiet(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  const struct amb_dir_sub *comes);
/* Some of the quiet topics whose number has changed are told. */
void amb_directory_count(struct amb_directory *directory);
bool amb_directory_may_count(const struct amb_directory *directory);

/* directory_pairs.c. May the subscription have one more pair? Else sub->over names the limit, and
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

/* directory_wake.c. One more slice; how many may be under way bounds it. */
void amb_directory_wake(struct amb_directory *directory);
bool amb_directory_may_wake(const struct amb_directory *directory);

/* The topic's home, and its publishers, are told how many read it. */
void amb_directory_tell_topic(struct amb_directory *directory, struct amb_dir_topic *topic);

/* The topic is in no list but those of the idle, and no worker knows it. */
void amb_directory_topic_free(struct amb_dir_topic *topic, unsigned shard_count);

/* Its last publisher or reader may have gone: if so, it is idle from here on. */
void amb_directory_rest(struct amb_directory *directory, struct amb_dir_topic *topic);
/* The one idle for longest leaves, to make room. False: none is idle. */
bool amb_directory_leave_oldest(struct amb_directory *directory);
