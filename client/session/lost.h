/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session, step by step. reconnect.c decides whether another session follows.
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>

struct amb_conn;

/* First: nothing more is sent, requests fail with `why`. */
void amb_session_down(struct amb_conn *conn, enum amb_status why, const char *text);
/* No other session follows: everything published is settled. */
void amb_session_end(struct amb_conn *conn, enum amb_status why);
/* After the end, as often as wanted, outside the link's callbacks. Gives back memory of the
 * broker's, but for what the program holds. A GPU may be full for the next broker until then. */
void amb_session_let_go(struct amb_conn *conn);
/* The event for the program, and the error that it may ask for. */
void amb_session_event(struct amb_conn *conn, bool is_lost);
/* Last: waiting threads look again. */
void amb_session_wake(struct amb_conn *conn);
/* There will not be another session. */
void amb_conn_give_up(struct amb_conn *conn, enum amb_status why, const char *text);
