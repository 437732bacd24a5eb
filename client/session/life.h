/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: made, torn down, freed.
 * Threads: as each function says. Memory: one struct, counted by its references.
 */
#pragma once

struct amb_conn;

/* Zeroed but for what an unconnected connection needs; refs is 1. NULL: no memory. */
struct amb_conn *amb_conn_create(void);
/* Closes a descriptor, if it is one. It is forgotten first: its number may be another one's at
 * once, which a child of fork would close. Lock held, or in that child. */
void amb_conn_close_fd(int *fd);
/* Closes the link, if there is one; lock held. A link of UCX goes on for a while: it is there until
 * link_state.is_closed. */
void amb_conn_close_link(struct amb_conn *conn);
/* Closes descriptors, link, segments. Lock held, no other thread is inside. Idempotent. */
void amb_conn_teardown(struct amb_conn *conn);
/* Frees it: the last reference is gone. No lock held. */
void amb_conn_free(struct amb_conn *conn);
