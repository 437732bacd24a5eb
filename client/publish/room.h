/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for a message: the best way that has some, or a wait until one has.
 * Threads: any, no lock held. Memory: the caller's, for the call.
 */
#pragma once

#include "client/batch/pub.h"
#include "client/publish/put.h"

/* May a message be taken now? Connection's lock held.
 *   slot_len  a slot for so many bytes would do; 0: it goes into none
 *   large     as a batch of its own it takes so much of send_memory_max; 0: it goes with others */
bool amb_room_is_there(struct amb_pub *pub, uint64_t slot_len, uint64_t large);
/* The best way that has room; waits for one. */
enum amb_status amb_put_any(struct amb_pub *pub, const struct amb_put *put, int64_t timeout_ns,
                            uint64_t *seq);
