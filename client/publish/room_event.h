/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMB_EVENT_ROOM: a call that answered EAGAIN may find room now.
 *
 *   EAGAIN ─► awaited ─► something has changed, and there is room ─► ready ─► amb_poll: told
 *
 * The publishers that wait so are a list, so that nothing is looked at where there are none. A
 * publisher is told of once, however many of its calls had no room. The queue of other events drops
 * the oldest when it is full; no publisher is dropped from this list before it is told of.
 *
 * Threads: under the connection's lock, but for the first. Memory: the publisher's.
 */
#pragma once

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_conn;
struct amb_lease_room;
struct amb_pub;

/* A message had no room; slot_len and large as for amb_room_is_there. No lock held. */
void amb_room_await_put(struct amb_pub *pub, uint64_t slot_len, uint64_t large);
/* A lease had none. */
void amb_room_await_lease(const struct amb_lease_room *room);
/* Something has changed: those that have room now are ready. */
void amb_rooms_look(struct amb_conn *conn);
/* The next that is ready, and may be told now. False: none. */
bool amb_room_take(struct amb_conn *conn, struct amb_event *out);
bool amb_room_is_ready(const struct amb_conn *conn);
/* The publisher is closed. */
void amb_room_forget(struct amb_pub *pub);
