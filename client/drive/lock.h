/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a connection, its references, and the push of frames that its link was given.
 *
 * Threads: any. Lock order: a publisher's lock, then the connection's, then a subscription's, then
 * the leaf locks. Memory: the last reference frees the connection.
 */
#pragma once

#include "client/conn/conn.h"
#include "client/drive/arm.h"
#include "client/drive/upcalls.h"

struct amb_conn;

void amb_conn_lock(struct amb_conn *conn);
bool amb_conn_trylock(struct amb_conn *conn);
/* Also takes back what was released meanwhile by threads that found the lock held. */
void amb_conn_unlock(struct amb_conn *conn);

/*
 * Pushes out frames that the link was given on the side, as releases are; lock held. Where that is
 * a system call, or with may_wait, the push is left to the driver or the next caller. It comes
 * soon: after the I/O thread's next nap at the latest.
 */
void amb_conn_push(struct amb_conn *conn, bool may_wait);

/* Pushes out frames that the link was given, and acknowledgements, which wait for that. Lock held,
 * has a link. */
static inline void amb_conn_flush_link(struct amb_conn *conn)
{
    if (__builtin_expect(!amb_list_is_empty(&conn->acks.waiting), 0)) {
        amb_upcalls.acks_send(conn);
    }
    conn->link_state.must_flush = false;
    amb_link_flush(conn->link);
    /* An epoll tells of room in any case, a poll(2) only if it was asked to. */
    bool wants_room =
        conn->link->queued != 0 || (conn->link_state.is_at_rest && conn->link->is_blocked);
    if (__builtin_expect(
            conn->link_state.is_armed && !conn->link_state.is_armed_for_room && wants_room, 0) &&
        conn->link->ops->kind != AMB_LINK_UCX) { /* There it is what is under way. */
        amb_conn_rearm(conn);
    }
}

void amb_conn_ref(struct amb_conn *conn);
/* Frees at 0. Without the lock. */
void amb_conn_unref(struct amb_conn *conn);
