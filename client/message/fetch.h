/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of lazy messages, asked for in pieces. Each lands in a buffer of ours, and the call that
 * waits takes it to where it is wanted. So a deadline holds, and a large payload lets others
 * pass.
 *
 *   FETCH ──► asked ──► (FETCHED) coming ──► done ──► copied by the caller
 *                │            └─ its caller has gone: thrown away when it is whole
 *                └─ its caller has gone: the answer is awaited, and thrown away
 *
 * On a ring a whole payload is asked for in place first, and in pieces if that is not to be had.
 *
 * Threads: the connection's lock, but for the copy. Memory: a piece's struct is the heap's, its
 * buffer the connection's.
 */
#pragma once

#include "client/drive/tx.h"

#include <amb/amb.h>

/* Pieces that one call has out, and all of a connection: more would end the session. */
#define AMB_FETCH_AHEAD 4u
#define AMB_FETCHES_MAX 16u

struct amb_conn;
struct amb_fetch;
struct amb_msg;
struct amb_side;

/* Asks for a piece; len 0: for all of it, in place. EAGAIN: not while so much is out. ENOMEM; or
 * the link is down. Lock held. */
enum amb_status amb_fetch_ask(const struct amb_msg *msg, uint64_t offset, uint64_t len,
                              struct amb_fetch **out);
/* The caller has what it wanted, or wants no more. Lock held. */
void amb_fetch_leave(struct amb_fetch *fetch);
/* How many pieces the broker still has to answer, or is answering: it counts those too. Lock held.
 */
uint32_t amb_fetch_count(struct amb_conn *conn);

/* A FETCHED frame. EPROTO. Lock held. */
enum amb_status amb_fetch_announced(struct amb_conn *conn, const struct amb_frame *frame,
                                    void **dst, struct amb_fetch **out);
/* Its bytes are here, or never will be. Lock held. */
void amb_fetch_arrived(struct amb_fetch *fetch, enum amb_status status);
/* The link has sent, or will never send, what asked for it. Lock held. */
void amb_fetch_sent(struct amb_conn_tx *out);
/* An arrival goes, and the payloads that were brought for its `count` messages. Lock held. */
void amb_fetch_recycle(struct amb_conn *conn, const struct amb_side *sides, uint32_t count);

void amb_fetches_init(struct amb_conn *conn);
/* No link and no caller is left. */
void amb_fetches_fini(struct amb_conn *conn);
