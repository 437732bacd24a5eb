/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A take becomes a delivery to its member: in place, by copy, or lazily. It then waits for its
 * acknowledgement, or is settled by being sent.
 *
 * Threads: the subscription's worker. Memory: a topic's name, once; frames from the shard's pool.
 */
#pragma once

#include <stdbool.h>

struct amb_take;
struct amb_taker;

/* False: not now. Its worker turns when it is to be tried again. */
bool amb_taker_send(struct amb_taker *taker, struct amb_take *take);
