/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that are too large for the open batch and have no slot: each a batch of its own.
 * Threads: any, no lock held. Memory: a copy only of pieces, and of what may have to go out again.
 */
#pragma once

#include "client/batch/pub.h"
#include "client/publish/put.h"

/* As a batch of its own, which is prepared once: *large is NULL at first, and when it is sent.
 * EAGAIN: no room. ENOMEM. */
enum amb_status amb_put_large(struct amb_pub *pub, const struct amb_put *put,
                              struct amb_batch **large, uint64_t *seq);
/* One that was prepared and is not sent. */
void amb_large_drop(struct amb_pub *pub, struct amb_batch *batch);
/* How much of send_memory_max such a batch takes. */
uint64_t amb_large_memory(const struct amb_pub *pub, const struct amb_put *put);
