/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a driver that may take seconds, made aside: a device comes up, a pool is opened, memory
 * is pinned. On a cold machine they take longer than a broker waits for a silent client. So each is
 * made on a thread of its own, and neither the connection's lock nor its I/O thread waits for it.
 *
 *   any thread, any lock held ── amb_aside ──► a thread: fn(arg), without locks
 *
 * The thread of later.h is not used for it. A job there may wait for a kernel, and that kernel for
 * a message that lies in the pool.
 *
 * Threads: any. Memory: one block for each that is under way.
 */
#pragma once

#include <stdbool.h>

struct amb_conn;
typedef void (*amb_aside_fn)(void *arg);

/* The connection lives until fn has returned. False: no thread can be had, and fn is not called. */
bool amb_aside(struct amb_conn *conn, amb_aside_fn fn, void *arg);
/* Before fork, and in parent and child after it. */
void amb_asides_lock(void);
void amb_asides_unlock(void);
/* Waits until none of the connection's is under way; for tests. No lock held. */
void amb_asides_wait(const struct amb_conn *conn);
