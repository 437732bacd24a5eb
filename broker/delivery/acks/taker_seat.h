/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's words to its queue: credit that comes back, takes that go home, and that it is full. A
 * member whose takes have half of its session's heap gets no more: those under way have the other
 * half.
 *
 * Threads: the subscription's worker; its words cross to the queue's. Memory: of the heap of the
 * session, which is charged for each take.
 */
#pragma once

#include "broker/delivery/acks/take.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_gpu_pool;
struct amb_taker;

/* Credit comes back. */
void amb_seat_back(struct amb_taker *taker, uint64_t msgs, uint64_t bytes);
/* One more take is here. The session may end for it. */
void amb_seat_charge(struct amb_taker *taker);
/* The session is not charged for so many takes any more, though they are here. */
void amb_seat_uncharge(struct amb_taker *taker, uint64_t takes);
/* A take leaves, for that reason. */
void amb_seat_go_home(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end);
/* Does the member read payloads of that pool in place? Its queue goes by the last one. */
void amb_seat_in_place(struct amb_taker *taker, const struct amb_gpu_pool *pool, bool is_in_place);
/* A take that was sent waits for nothing any more. */
void amb_seat_forget(struct amb_taker *taker, struct amb_take *take);
/* All three, of a take that was sent: all of it is settled, or it is given up for that reason. */
void amb_seat_end(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end);
