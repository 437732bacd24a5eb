/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session that a connection has, or had last: the broker's Welcome, and the session's end.
 * session/handshake.c, session/reconnect.c and session/lost.c write it.
 *
 * Threads: under the connection's lock; limits and `down` are read without it, see conn/error.c.
 * Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_conn_session {
    uint64_t max_message;
    uint32_t batch_bytes, batch_msgs;
    enum amb_status down; /* why the session is over; AMB_OK: it is not */
    bool has_let_go;      /* down for good: the broker's memory was given back */
    uint32_t life;        /* counts sessions: words on an older one are not for the broker */
    uint32_t id, generation;
    uint64_t secret, epoch;
    char down_text[200];
    enum amb_status link_status; /* why the link is down, as the link says it */
    char link_text[160];
};
