/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls upwards: the functions of higher rooms that the driver, the lock and the control connection
 * call. One const table holds them, and wiring.c alone names them. None is on the way of a single
 * message, and with link time optimisation each is a direct call.
 *
 * Threads: as each says. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_conn;

struct amb_conn_upcalls {
    /* Arrivals in conn->returned are reported to the broker, and used again. Lock held. */
    void (*take_back)(struct amb_conn *conn);
    /* Sends the batches that are due; returns how many were sent. Lock held. */
    unsigned (*flush_due)(struct amb_conn *conn);
    /* Hands the link every acknowledgement that waits in conn->acks.waiting. Lock held. */
    void (*acks_send)(struct amb_conn *conn);
    /* Reads and handles what is on the control socket. Lock held, may be given up. */
    void (*service)(struct amb_conn *conn);
    /* The same of what has come by now and no more: the link is down, and that may say why. */
    void (*hear_out)(struct amb_conn *conn);
    /* The work of the clock: heartbeats, deadlines, segments. Lock held, may be given up. */
    void (*timers)(struct amb_conn *conn, int64_t now_ns);
    /* Before a nap: looks for a moment whether new releases behind streams are over. Lock held;
     * returns whether it was given up meanwhile. */
    bool (*spin)(struct amb_conn *conn);
    /* Publishers that wait for room may have some. Lock held. */
    void (*look_for_room)(struct amb_conn *conn);
    /* See amb_conn_lost. */
    void (*lost)(struct amb_conn *conn, enum amb_status why, const char *text);
    /* The last reference is gone. No lock held. */
    void (*end)(struct amb_conn *conn);
};

/* Defined in wiring.c. */
extern const struct amb_conn_upcalls amb_upcalls;

/*
 * The session is over for `why`; lock held. Fails requests, closes the link, and either settles
 * what was published with `why` and ends every wait, or begins to reconnect. The second call does
 * nothing.
 */
static inline void amb_conn_lost(struct amb_conn *conn, enum amb_status why, const char *text)
{
    amb_upcalls.lost(conn, why, text);
}
