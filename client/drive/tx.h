/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame on its way out, embedded in its owner: a batch, an acknowledgement. The link says only
 * which tx is settled; the kind says which struct the frame is part of.
 * Threads: under the connection's lock. Memory: the owner's, until the link has settled it.
 */
#pragma once

#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <stdbool.h>

struct amb_conn;

enum amb_conn_tx_kind {
    AMB_CONN_TX_BATCH, /* of struct amb_batch */
    AMB_CONN_TX_VIEW,  /* of struct amb_view */
    AMB_CONN_TX_ACK,   /* of struct amb_ack_frame */
    AMB_CONN_TX_FETCH, /* of struct amb_fetch */
    AMB_CONN_TX_RANGE, /* a range of releases, on its own; freed when sent */
};

struct amb_conn_tx {
    struct amb_link_tx tx;
    struct amb_frame frame; /* type and fields set by the owner; the session is filled in */
    enum amb_conn_tx_kind kind;
    bool is_queued; /* the link has it */
};

/* AMB_OK: sent, and the memory is the owner's again. EAGAIN: queued. Else the link is down. */
enum amb_status amb_conn_tx_send(struct amb_conn *conn, struct amb_conn_tx *out);
/* The link reads the data of a queued frame from `data`, a copy of it, from here on. False: it may
 * read the old place until the frame is settled. */
bool amb_conn_tx_move(struct amb_conn *conn, struct amb_conn_tx *out, const void *data);
