/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription begins and ends to read one topic: orders to the topic's home, which attaches a
 * cursor or lends to the subscriber's worker. Part of the directory: only directory*.c include
 * this. Threads: the control thread.
 */
#pragma once

#include "broker/control/directory/directory.h"

/* The subscription reads the topic, or does not any more; orders with an answer. Returns how many
 * orders `done` shall hear of. */
unsigned amb_directory_connect(struct amb_directory *directory, struct amb_dir_topic *topic,
                               struct amb_dir_sub *sub, amb_order_done_fn done, void *context);
unsigned amb_directory_disconnect(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  struct amb_dir_sub *sub, amb_order_done_fn done, void *context);
/* The subscription reads on, in another way than what home has counted. former: how it was. */
void amb_directory_recount(struct amb_directory *directory, const struct amb_dir_sub *sub,
                           struct amb_dir_topic *topic, const struct amb_dir_sub *former);
