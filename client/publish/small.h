/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small messages: into the open batch of their publisher, which leaves by the rule of batch.h.
 * Threads: as each function says. Memory: the batch's.
 */
#pragma once

#include "client/batch/pub.h"
#include "client/publish/put.h"

/* Appends it to the open batch. EAGAIN: no room. */
enum amb_status amb_put_small(struct amb_pub *pub, const struct amb_put *put, uint64_t *seq);
/* The same once clock and counters are to be looked at. */
void amb_put_look(struct amb_pub *pub, const struct amb_batch *batch, bool is_full);
/* A message was added to this batch, which is the publisher's newest: sends it if the rule says so.
 * is_full: it does. Publisher's lock held. */
static inline void amb_put_added(struct amb_pub *pub, const struct amb_batch *batch, bool is_full)
{
    if (batch->count != 1 && !is_full && (batch->count & pub->rule.mask) != 0) {
        return; /* Clock and counters are not looked at for every message. */
    }
    amb_put_look(pub, batch, is_full);
}
