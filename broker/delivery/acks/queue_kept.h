/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes that a queue keeps because they came home unsettled. Some are ready to go out again, by
 * priority and about in the order of the log. Others wait for their time, in a heap. They count
 * against the credit of all members together.
 *
 * Threads: the queue's worker. Memory: the heap grows with the takes in it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_queue;
struct amb_take;

/* It goes out again after so long; 0: as soon as somebody has credit. */
void amb_queue_keep(struct amb_queue *queue, struct amb_take *take, int64_t delay_ns);
/* The same of its open messages alone: a take for each run of them. False: there is no memory for
 * one. The runs without a take of their own are kept as one take, with settled messages between
 * them. That take does not go out before it is split. */
bool amb_queue_keep_rest(struct amb_queue *queue, struct amb_take *take, int64_t delay_ns);
/* Keeps a take that was to go out, and found no memory on its way. It is ready after a pause. */
void amb_queue_keep_back(struct amb_queue *queue, struct amb_take *take);
/* There is no memory for what would go out. The queue is marked again after AMB_TAKE_PAUSE_NS. */
void amb_queue_pause(struct amb_queue *queue);
/* Counts a take that stands among those that are kept already. */
void amb_queue_count_kept(struct amb_queue *queue, const struct amb_take *take);
/* It counts no more. Its list is the caller's to take it from. */
void amb_queue_unkeep(struct amb_queue *queue, const struct amb_take *take);
/* It counts no more, and stands there no more. */
void amb_queue_take_out(struct amb_queue *queue, struct amb_take *take);
/* The first of those that are ready, up to that rank. NULL: there is none. */
struct amb_take *amb_queue_ready(const struct amb_queue *queue, unsigned rank_max);
/* Those whose time has come are ready. *next_ns is lowered to when the next one's comes. */
void amb_queue_wake_kept(struct amb_queue *queue, int64_t *next_ns);
/* Drops all of them. */
void amb_queue_drop_kept(struct amb_queue *queue);
