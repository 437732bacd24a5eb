/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries: made when a batch arrives, given back with their last message, used again.
 *
 * Threads: as each function says. Memory: recycled by class, see delivery.h.
 */
#pragma once

#include "client/message/arrival.h"

/* Zeroed, room for `count` messages; holds a reference on conn. NULL: no memory. Lock held. */
struct amb_arrival *amb_arrival_create(struct amb_conn *conn, uint32_t count);
/* Before anything of it was given out: undoes create. Lock held. */
void amb_arrival_discard(struct amb_arrival *arrival);
/* The next messages of a ready delivery, with one reference each, at most max of them; returns how
 * many. Subscription's lock held. */
size_t amb_arrival_take(struct amb_arrival *arrival, struct amb_msg **out, size_t max);

/* `n` messages of it are released; the last one gives it back. Any thread, no lock of ours. */
void amb_arrival_release(struct amb_arrival *arrival, uint32_t n);
/* Takes arrivals that were given back: reports to the broker, recycles. Lock held. */
void amb_arrival_take_back(struct amb_conn *conn);
void amb_arrivals_init(struct amb_conn *conn);
/* Frees what is kept for use, and the names of topics. No delivery is out any more. */
void amb_arrivals_fini(struct amb_conn *conn);
