/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking those who sleep: threads that wait for something of a connection, the driver among them
 * that sleeps on the link, and the I/O thread.
 *
 * Threads: under the connection's lock, unless said. Memory: none.
 */
#pragma once

#include "client/conn/wait.h"

struct amb_conn;

/* The state of a wait: AMB_OK, its end without success, or EAGAIN, with which it goes on. Lock
 * held. */
enum amb_status amb_conn_verdict(struct amb_conn *conn, const struct amb_wait *wait);

/* Something has changed that a wait may be for. Lock held; those who wait look again when it is
 * given up, at the latest. */
void amb_conn_changed(struct amb_conn *conn);
/* Wakes threads whose condition may be true by now. Lock held. */
void amb_conn_wake_waiters(struct amb_conn *conn);
/* Wakes all waits and the driver so that they look again. Any thread; async-signal-safe. */
void amb_conn_wake_all(struct amb_conn *conn);
/* It sleeps on the link, and shall look again. Lock held. */
void amb_conn_wake_driver(struct amb_conn *conn);
/* Wakes the I/O thread, if there is one, so that it looks again. Any thread. */
void amb_io_kick(struct amb_conn *conn);
