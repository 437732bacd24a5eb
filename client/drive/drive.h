/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver. A thread that must wait for something of a connection moves link and control socket
 * itself, so a message needs no hop between threads. While the driver finds nothing it yields, and
 * when yielding does not help it sleeps. Others that wait follow: they sleep until the
 * driver says that something changed, and one of them becomes the next driver. When nobody drives,
 * the I/O thread does (io.c).
 *
 *   ready? ─► driver free? ─► progress, yield, ... arm, sleep on {link, control, wake}
 *                 └─ taken ─► sleep on `change`
 *
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "client/conn/wait.h"

struct amb_conn;

/* Frames a turn: few, so that messages are still in the cache when they are taken. */
#define AMB_POLL_BUDGET 8u
/* The same while frames wait to be sent. A turn sends up to 1,024 of them, and each may be
 * answered. To the broker, a client that reads fewer frames than it causes is one that does not
 * read. */
#define AMB_POLL_BUDGET_BUSY 2048u

/*
 * Lock held on entry and on return, given up in between. AMB_OK: is_ready said so. EAGAIN,
 * ETIMEDOUT, ESTOPPED, ECLOSED, EFORKED, or why the session is lost. With AMB_WAIT_ASKS also
 * ECANCELED: a signal has come, and options.is_interrupted said that it ends the wait.
 */
enum amb_status amb_conn_wait(struct amb_conn *conn, const struct amb_wait *wait);
/* The same for what the broker answers: options.is_interrupted is asked ten times a second, too. */
enum amb_status amb_conn_wait_asking(struct amb_conn *conn, const struct amb_wait *wait);
/* Until no call of another thread is inside, as counted there: each is woken, and turns back. Lock
 * held, given up meanwhile. */
void amb_conn_await_out(struct amb_conn *conn, const _Atomic uint32_t *inside);

/*
 * Moves what can be moved without waiting: the link, batches that are due, messages that were
 * released. Lock held. Returns how much was done.
 */
unsigned amb_conn_progress(struct amb_conn *conn);
/* The first part of it: frames that have come, and messages that were released. */
unsigned amb_conn_receive(struct amb_conn *conn);
