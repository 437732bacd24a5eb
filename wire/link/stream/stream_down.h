/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a stream link goes down: its open body and its queue are settled, then its owner is told. One
 * tx that is sent is settled here too.
 * Threads and Memory: those of link.h. Only the other files of this room include this.
 */
#pragma once

#include "wire/link/stream/stream_state.h"

/* Takes tx out and tells its owner. */
void amb_stream_settle(struct stream *stream, struct amb_link_tx *tx, enum amb_status status);
/* All that was encrypted is in the socket. */
void amb_stream_settle_flying(struct stream *stream);
/* Bodies and tx that will never be complete. is_down is set: what upcalls send now is refused. */
void amb_stream_settle_rest(struct stream *stream, enum amb_status body, enum amb_status sent);
/* Settles everything, tells the owner, cuts the connection. Nothing if it is down already. */
void amb_stream_fail(struct stream *stream, enum amb_status why, const char *text);
