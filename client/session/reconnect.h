/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reconnecting. When a session is lost and the options allow it, the connection is away. Handles
 * stay, and waits go on. Messages that were not sent are kept. Those that may have been sent are
 * settled with EUNKNOWN.
 *
 *   lost ─► away: a thread of its own tries the hosts, with backoff ─► a session
 *      ─► publishers opened, subscriptions entered again, under their handles ─► back: RESTORED
 *      └► no right to, or attempts used up ─► down for good
 *
 * Threads: under the connection's lock, unless said. The thread lives from a loss to the next
 * session, holds a reference, and has the lock but while it waits or dials. Memory: copies of the
 * options' strings.
 */
#pragma once

#include <amb/amb.h>

struct amb_conn;

/* See amb_conn_lost, which calls it. */
void amb_session_lost(struct amb_conn *conn, enum amb_status why, const char *text);
/* Until the thread has ended; the lock is given up meanwhile. */
void amb_reconnect_stop(struct amb_conn *conn);
