/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue's takes that come again, by their entry: a late ACK names its messages so (queue_late.h).
 * Takes of one entry are in a ring, and the first of them is in the queue's table. A take whose
 * messages were never delivered before is in neither, and costs nothing.
 *
 * Threads: the queue's worker, also of takes that members have. Memory: the table.
 */
#pragma once

struct amb_queue;
struct amb_take;
struct amb_take_key;

/* From here on it is found. Harmless twice. Without memory it is not found. */
void amb_queue_again_add(struct amb_take *take);
/* ... and not any more. Harmless twice. */
void amb_queue_again_remove(struct amb_take *take);
/* One of that entry, or of another one with the same place in the table. The others are its kin.
 * NULL: there is none. */
struct amb_take *amb_queue_again_first(const struct amb_queue *queue,
                                       const struct amb_take_key *key);
