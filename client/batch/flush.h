/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches leave: the open one, those that were put aside, the queue of commits.
 * Threads: both locks held, the publisher's and the connection's, unless said. Memory: see
 * batches.h.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_batch;
struct amb_conn;
struct amb_pub;

/*
 * Sends the open batch and the queue. Both locks held. AMB_OK: nothing is left of them. EAGAIN: no
 * window, and the broker knows. Else the session is lost.
 */
enum amb_status amb_pub_flush_open(struct amb_pub *pub);
/* Sends one message as a batch of its own, the same way. Takes the batch on AMB_OK only. */
enum amb_status amb_pub_flush_large(struct amb_pub *pub, struct amb_batch *large);
/* Sends what is due on all publishers of the connection; lock held. Returns how many it sent. */
unsigned amb_pub_flush_due(struct amb_conn *conn);
/* The same, but only what is as old as it may become. */
unsigned amb_pub_flush_lingering(struct amb_conn *conn, int64_t now_ns);
/* Gives back what is not sent: what is away, and the queue. Connection's lock held. */
void amb_pub_drop_unsent(struct amb_pub *pub);
