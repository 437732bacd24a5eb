/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame on its way out, embedded in whatever it belongs to. The link says only which tx is
 * settled; the kind says what it is part of.
 * Threads: under the connection's lock. Memory: the owner's, until it is settled.
 */
#pragma once

#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <stdbool.h>

struct amb_conn;

enum amb_outgoing_kind {
    AMB_OUTGOING_BATCH,   /* of struct amb_batch */
    AMB_OUTGOING_SEGMENT, /* of struct amb_segment */
    AMB_OUTGOING_ACK,     /* of struct amb_ack_frame */
    AMB_OUTGOING_FETCH,   /* of struct amb_fetch */
    AMB_OUTGOING_RANGE,   /* a range of releases, on its own; freed when sent */
};

struct amb_outgoing {
    struct amb_link_tx tx;
    struct amb_frame frame; /* type and fields set by the owner; who we are is filled in */
    enum amb_outgoing_kind kind;
    bool is_queued; /* the link has it */
};

/* AMB_OK: sent, and the memory is the owner's again. EAGAIN: queued. Else the link is down. */
enum amb_status amb_outgoing_send(struct amb_conn *conn, struct amb_outgoing *out);
