/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O thread of a connection. It keeps the session alive (heartbeats, liveness of the broker),
 * sends batches that have lingered, and moves the link when no caller does:
 *
 *   WATCH  no caller is about: asleep on the link, which wakes it
 *   TICK   callers come and go and move the link themselves, or a batch lingers: a short nap, so
 *          that it is there soon after the last of them without being woken for each
 *   DEEP   a caller sleeps on the link: nothing to do but heartbeats
 *
 * So a caller that publishes or takes messages in a loop never pays for waking it.
 *
 * Threads: its own; it has the lock but while it naps. Memory: a reference to the connection.
 */
#pragma once

#include "wire/base/status.h"

struct amb_conn;

/* Begins it. Lock held. */
enum amb_status amb_io_start(struct amb_conn *conn);
