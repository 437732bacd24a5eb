/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out of a stream link: its queue and flow values to the socket.
 * Threads and Memory: those of link.h. Only stream.c includes this.
 */
#pragma once

#include "wire/link/stream/stream_state.h"

/* Sends until all is sent, the socket is full or a burst is through. Returns how many tx it
 * settled, plus 1 if it sent anything. */
unsigned amb_stream_push(struct stream *stream);
