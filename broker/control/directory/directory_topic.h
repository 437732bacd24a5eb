/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One topic of the directory: its memory, its id, its kin of other priorities, and how workers come
 * to know it. Part of the directory: only directory*.c include this.
 * Threads: the control thread. Memory: one allocation a topic, and a table of shards.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* An order that nobody can do without; without memory the broker is at its end anyway, which is
 * logged, and this is NULL. */
void *amb_directory_order(const struct amb_order_kind *kind, amb_order_done_fn done, void *context);

/* In no list, and without an id. NULL: no memory. */
struct amb_dir_topic *amb_dir_topic_make(struct amb_directory *directory, uint32_t tenant,
                                         const char *name, size_t len, unsigned home);
/* The tenant's topic of that name and of priority NORMAL; NULL: there is none. */
struct amb_dir_topic *amb_directory_named(const struct amb_directory *directory, uint32_t tenant,
                                          const char *name, size_t len);
/* It is found by that from here on, or not any more. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_directory_name_put(struct amb_directory *directory,
                                                      struct amb_dir_topic *topic);
void amb_directory_name_remove(struct amb_directory *directory, const struct amb_dir_topic *topic);
/* The party pays for it, as a topic and as heap. payer NULL: nobody does. */
void amb_dir_topic_charge(struct amb_dir_topic *topic, struct amb_party *payer);
/* Harmless twice. */
void amb_dir_topic_uncharge(struct amb_dir_topic *topic);
/* The topic is in no list but those of the idle, and no worker knows it. */
void amb_directory_topic_free(struct amb_dir_topic *topic, unsigned shard_count);
/* The topic as that shard knows it, introduced there if it is not. NULL: no memory. */
struct amb_topic *amb_dir_topic_introduce(struct amb_directory *directory,
                                          struct amb_dir_topic *topic, unsigned shard);
/* It has one more publisher, or one more subscription to just its name. */
void amb_dir_topic_use(struct amb_dir_topic *topic);

/* Beside two cells of ids for each topic: those that leave are not free yet, and no limit bounds
 * them. */
#define AMB_DIRECTORY_CELLS_SPARE 1024u
/* Room for the ids of so many topics; never less than before. False: no memory. */
bool amb_directory_ids_fit(struct amb_directory *directory, uint32_t max_topics);
/* False: thousands are just leaving. */
bool amb_directory_id_take(struct amb_directory *directory, uint32_t *out);
/* The id of a topic that is gone may be given again: late. */
void amb_directory_id_give(struct amb_directory *directory, uint32_t id);
/* NULL: the topic is gone. */
struct amb_dir_topic *amb_directory_topic_of(const struct amb_directory *directory, uint32_t id);

/* The topic of that priority with the name of `main`. NULL: there is none. */
struct amb_dir_topic *amb_dir_topic_kin(struct amb_dir_topic *main, enum amb_priority priority);
/* The same by rank, in the order in which a reader comes to them: what is lower gives way. */
struct amb_dir_topic *amb_directory_kin(struct amb_dir_topic *main, unsigned rank);
