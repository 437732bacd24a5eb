/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks that a thread is inside of. amb_poll does not nest, so one connection a thread is
 * enough. Threads: each has its own. Memory: none.
 */
#pragma once

#include <stdbool.h>

struct amb_conn;

/* Callbacks of conn begin; returns the connection that the thread was inside before, for leave. */
const struct amb_conn *amb_callbacks_enter(const struct amb_conn *conn);
void amb_callbacks_leave(const struct amb_conn *outer);
/* Is this thread inside a callback of this connection? NULL: of any. */
bool amb_callbacks_inside(const struct amb_conn *conn);
