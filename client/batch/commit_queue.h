/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a publisher: batches of commits, behind the open batch. A commit does not wait, so
 * it stands here while an earlier batch finds no window, or while a GPU still writes its payloads.
 * A commit whose memory the broker cannot read, or whose session is over, is transferred: each of
 * its messages becomes a batch of its own.
 *
 *   commit ─► queue ─┬─► sent in place
 *                    └─► in pieces ─► sent as plain batches
 *
 * Threads: both locks held, the publisher's and the connection's, unless said. Memory: see
 * batches.h.
 */
#pragma once

#include "wire/base/status.h"

struct amb_batch;
struct amb_pub;

/* Appends a batch; publisher's lock held. */
void amb_commit_queue_add(struct amb_pub *pub, struct amb_batch *batch);
/* The first of at least one. */
struct amb_batch *amb_commit_queue_first(const struct amb_pub *pub);
/* Sends the queue. AMB_OK: it is empty. EAGAIN: no window, or a GPU is not done. Else the link is
 * down. */
enum amb_status amb_commit_queue_flush(struct amb_pub *pub);
/* Gives back what is not sent. Connection's lock held. */
void amb_commit_queue_drop(struct amb_pub *pub);
