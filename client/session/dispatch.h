/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the broker on the control connection, and the timers that keep the session alive.
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_conn;

/* Reads and handles messages that are there, writes those that wait. */
void amb_control_service(struct amb_conn *conn);
/* Takes what the broker has said by now and no more: why it ended the session, say, when the link
 * is found to be down. */
void amb_control_hear_out(struct amb_conn *conn);

/* Reads the control socket, speaks to keep the session alive, maps lease segments. Lock held, may
 * be given up. */
void amb_conn_timers(struct amb_conn *conn, int64_t now_ns);
/* Before a nap: looks for a moment whether releases behind streams are over, where there are new
 * ones. Lock held; returns whether it was given up meanwhile. */
bool amb_conn_spin(struct amb_conn *conn);
/* The last time to speak at that is not after now_ns. Clients of one host speak together, so that a
 * broker with nothing else to do wakes seldom. */
int64_t amb_conn_ping_grid(const struct amb_conn *conn, int64_t now_ns);
