/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two files of the directory share: directory.c has topics come and be read,
 * directory_leave.c has those leave that nobody uses.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/directory.h"

/* An order that nobody can do without; without memory the broker is at its end anyway, which is
 * logged, and this is NULL. */
struct amb_order *amb_directory_order(amb_order_fn run, amb_order_done_fn done, void *context);
/* The id of a topic that is gone may be given again: late. */
void amb_directory_id_give(struct amb_directory *directory, uint32_t id);
/* The topic is in no list but those of the idle, and no worker knows it. */
void amb_directory_topic_free(struct amb_dir_topic *topic, unsigned shard_count);

/* Its last publisher or reader may have gone: if so, it is idle from here on. */
void amb_directory_rest(struct amb_directory *directory, struct amb_dir_topic *topic);
/* The one idle for longest leaves, to make room. False: none is idle. */
bool amb_directory_leave_oldest(struct amb_directory *directory);
