/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch is numbered, and given to the link.
 * Threads: both locks held, the publisher's and the connection's, unless said. Memory: the batch
 * stays its owner's until the link has settled it.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_batch;
struct amb_pub;

/* Numbers the batch, whose last message is last_seq, and gives it to the link. AMB_OK: sent;
 * EAGAIN: queued; ENOMEM; else the link is down. */
enum amb_status amb_batch_send(struct amb_pub *pub, struct amb_batch *batch, uint64_t last_seq);
/* Will a batch be ours after it was sent? Others may be before it on the link, or it may have to be
 * sent again. */
bool amb_batch_would_stay(const struct amb_pub *pub);
/* The result of a send for its caller. EAGAIN also where the link has just broken: that is another
 * session's matter. */
enum amb_status amb_batch_outcome(const struct amb_pub *pub, enum amb_status status);
/* The link has settled a batch's tx. Connection's lock held. */
void amb_pub_batch_sent(struct amb_batch *batch);
