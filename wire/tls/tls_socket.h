/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records between the buffers of a connection and its socket. The first two are for its owner, the
 * others for this room.
 * Threads: the connection's. Memory: the buffers grow here.
 */
#pragma once

#include "wire/tls/tls.h"

/* Moves what waits into the socket. False: it has failed, as errno says. */
bool amb_tls_push(struct amb_tls *tls);
bool amb_tls_has_unsent(const struct amb_tls *tls);
/* Reads from the socket as much as there is room for. Returns how many bytes came: 0 if none are
 * there, or the end is. *is_short: no more is there, most likely. */
size_t amb_tls_fill(struct amb_tls *tls, bool *is_short);
/* libssl's word on a call of it that returned `result` becomes the connection's end. False: it
 * wants more bytes, and nothing is wrong. */
bool amb_tls_note_failure(struct amb_tls *tls, int result);
/* Nothing can be sent any more. Returns false, with errno. */
bool amb_tls_mute(struct amb_tls *tls, int why);
