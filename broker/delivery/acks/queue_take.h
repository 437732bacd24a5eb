/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue's takes as their home knows them. Each has a reference on its entry, counts on its
 * topic's name and on the tally of its batch, and is one of the queue's.
 *
 * Threads: the queue's worker. Memory: takes that are kept for use again (take.h).
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_queue;
struct amb_take;
struct amb_tally;
struct amb_topic;

/* With a reference on the entry of its own. NULL: not now. */
struct amb_take *amb_queue_take_make(struct amb_queue *queue, struct amb_topic *topic,
                                     struct amb_entry *entry, uint32_t first, uint32_t count);
/* It counts for that tally, or NULL for none. */
void amb_queue_take_tally(struct amb_take *take, struct amb_tally *tally);
/* The same of one that is about to be given to a member. */
void amb_queue_take_given(struct amb_take *take, struct amb_tally *tally);
/* Its tally hears now of messages that are settled. The take goes on with the rest. */
void amb_queue_take_tell(struct amb_take *take);
/* It had so many deliveries before. */
void amb_queue_take_again(struct amb_take *take, uint32_t attempt);
/* It is home, and its late ACKs have had their effect: they are no longer kept for it. */
void amb_queue_take_forget_late(struct amb_take *take);
/* Gives up all that it has, and puts it away. */
void amb_queue_take_drop(struct amb_take *take);
