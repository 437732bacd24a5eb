/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake: Hello, Challenge, Auth, Welcome, and the link that Welcome names.
 * Threads: the caller of amb_connect. Memory: the connection's.
 */
#pragma once

#include "client/conn/conn.h"
#include "client/session/dial.h"
#include "client/session/own.h"
#include "client/session/secure.h"

struct amb_client_ucx;

/* The session that a new one replaces. */
struct amb_former {
    uint32_t session, generation;
    uint64_t secret, epoch;
    bool is_unmapped; /* nothing of it is mapped here any more */
};

/* Options of the connection, from the program and its environment. */
struct amb_handshake {
    const struct amb_url *url;
    const char *name;
    const struct amb_own *own;
    const char *trusted;              /* comma list of UCX's devices, or NULL */
    const struct amb_client_ucx *ucx; /* how UCX is to use them; NULL without trusted */
    const struct amb_former *former;  /* or NULL */
    const struct amb_secure *secure;
};

/*
 * On success conn has a control socket, a session and a link. On failure it may have some of them
 * (amb_conn_teardown), and dial->error says what happened.
 */
AMB_MUST_CHECK enum amb_status amb_handshake_run(struct amb_conn *conn, struct amb_dial *dial,
                                                 const struct amb_handshake *with);
