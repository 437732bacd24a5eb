/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgements on their way to the broker. Those of consecutive messages of one delivery are a
 * run, and a run is one frame. A run waits until another begins, until the delivery's last message
 * is in it, or until anything else pushes the link. amb_acks_send is part of that push.
 *
 * Threads: under the connection's lock, which a run needs only where it begins and ends. Memory:
 * frames are used again.
 */
#pragma once

#include "client/drive/tx.h"
#include "wire/base/list.h"

#include <amb/amb.h>
#include <stdint.h>

struct amb_conn;
struct amb_arrival;
struct amb_sub;

#define AMB_ACK_FRAMES_CACHED 64u

/* A frame, and the reason of a TERM. */
struct amb_ack_frame {
    struct amb_conn_tx out;
    struct amb_list_node node; /* unused ones */
    char reason[AMB_ACK_REASON_MAX + 1];
};

/* The link is done with it. Lock held. */
void amb_ack_frame_put(struct amb_conn *conn, struct amb_ack_frame *frame);
void amb_conn_acks_init(struct amb_conn *conn);
/* Frees the frames that are kept for use. */
void amb_conn_acks_fini(struct amb_conn *conn);
/* Hands the link every acknowledgement that waits. Lock held. */
void amb_acks_send(struct amb_conn *conn);
/* All of a delivery that could not be brought here shall come again. Without locks. */
void amb_acks_refuse(struct amb_arrival *arrival);
/* Waits until the broker has counted what was acknowledged so far. Lock held, given up. */
enum amb_status amb_acks_sync(struct amb_conn *conn, int64_t timeout_ns);
/* The subscription gets no more, but may acknowledge what it has. Lock held. */
void amb_acks_stop(struct amb_sub *sub);
