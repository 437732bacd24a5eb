/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that all files of a queue share. queue.c moves its takes; queue_life.c is its
 * beginning, its members, its topics, and its end.
 *
 * Threads: its worker.
 */
#pragma once

#include "broker/delivery/acks/queue.h"
#include "broker/shard/shard.h"

#define RANK_LAST (AMB_PRIORITIES - 1)

/* Something may go out: it is looked at in this turn, or the next. */
static inline void amb_queue_mark(struct amb_queue *queue)
{
    if (amb_list_is_empty(&queue->dirty)) {
        amb_list_push_back(&queue->shard->queues.dirty, &queue->dirty);
    }
}

/* Messages that the member has and did not settle. */
static inline uint64_t amb_seat_out(const struct amb_seat *seat)
{
    return seat->given_msgs - atomic_load_explicit(&seat->back_msgs, memory_order_acquire);
}
