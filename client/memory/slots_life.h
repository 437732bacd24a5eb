/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease segments come and go. They are asked for, mapped and pinned. They are given back when they
 * are idle, or when another size needs the room, and end with the session.
 *
 * Threads: under the connection's lock, which is given up while pages are brought in. Memory: one
 * allocation a segment, and its mapping.
 */
#pragma once

#include "client/memory/slots.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_conn;
struct amb_gpu;

/* Begins to open one more segment for such messages. False: the broker gives no more. */
bool amb_slots_open(struct amb_conn *conn, struct amb_slot_wish wish);
/* The same on a GPU. False: see amb_gpu_room_of. */
bool amb_slots_open_gpu(struct amb_conn *conn, struct amb_gpu *gpu, uint64_t len);
/* The same in host memory that this GPU's driver pins. private_max: bytes that segments of this
 * process alone may have in all; 0: one that the broker gives. False: there are no more, or none
 * can be pinned now. */
bool amb_slots_open_pinned(struct amb_conn *conn, struct amb_gpu *gpu, struct amb_slot_wish wish,
                           uint64_t private_max);
/* Why the driver has just not pinned memory of this process's own. AMB_OK: it has. */
enum amb_status amb_slots_why_unpinned(const struct amb_conn *conn);
/* Maps new segments, gives back those that have been idle for long. Called by the I/O thread, or
 * without one by the driver; gives up the lock meanwhile. Memory that a driver maps or pins is
 * mapped aside. */
void amb_slots_turn(struct amb_conn *conn, int64_t now_ns);

/* The session ends: unmaps what no lease lies in, and the rest when its last lease is back. */
void amb_leases_drop_all(struct amb_conn *conn);
/* Is no memory of a broker's mapped any more that a lease was written to? */
bool amb_leases_are_gone(const struct amb_conn *conn);
/* No lease is out any more. */
void amb_leases_fini(struct amb_conn *conn);
