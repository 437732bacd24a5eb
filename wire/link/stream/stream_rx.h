/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in of a stream link: the socket to upcalls. Only amb_stream_pull reads the socket; the
 * three below it are its steps, for a test that has the bytes in memory.
 * Threads and Memory: those of link.h.
 */
#pragma once

#include "wire/link/stream/stream_state.h"

#include <sys/uio.h>

/* Receives for about `budget` units; may take the link down. */
unsigned amb_stream_pull(struct stream *stream, unsigned budget);
/* Has TLS something in hand of which no edge tells: bytes, or their end? Then it is not slept on.
 */
bool amb_stream_has_unread(struct stream *stream);
/* The work of pull, without the socket: upcalls for the bytes there are. Returns how many units
 * began, at most `budget`. */
unsigned amb_stream_parse(struct stream *stream, unsigned budget);
/* Where the bytes go that come next, in this order. Returns 1 or 2. */
size_t amb_stream_room(struct stream *stream, struct iovec iov[2]);
/* So many of them have come there. */
void amb_stream_take(struct stream *stream, uint64_t bytes);
