/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The member of a queue that gets a message. That is by its key where it has one and there are
 * several members, else the one with the most credit left.
 *
 * Threads: the queue's worker. Memory: none.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_queue;
struct amb_seat;

/* How many of the messages first .. first+count-1 the member *out gets. 0: nobody has credit. */
uint32_t amb_queue_choose(const struct amb_queue *queue, const struct amb_entry *entry,
                          uint32_t first, uint32_t count, struct amb_seat **out);
