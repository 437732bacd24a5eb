/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain bytes through a connection whose handshake is done.
 * Threads: the connection's. Memory: nothing is allocated for a record, once buffers have grown.
 */
#pragma once

#include "wire/tls/tls_socket.h"

#include <sys/types.h>
#include <sys/uio.h>

/*
 * As sendmsg: takes as many of the bytes as there is room for. -1 and errno: EAGAIN, ECONNRESET and
 * others of the socket, EPROTO. Bytes that it has taken may wait in its buffer. While
 * amb_tls_has_unsent, amb_tls_push goes on when there is room.
 */
ssize_t amb_tls_send(struct amb_tls *tls, const struct iovec *iov, size_t count);
/*
 * As recvmsg, of so many records at most. Less than there was room for: all that was there has been
 * read, unless amb_tls_has_unread. -1 and EAGAIN: the same. 0: the peer has ended the connection.
 * EPROTO: amb_tls_why.
 */
ssize_t amb_tls_receive(struct amb_tls *tls, const struct iovec *iov, size_t count);
/* May there be bytes that a poll of the socket does not tell of? */
bool amb_tls_has_unread(const struct amb_tls *tls);
/* Gives the memory back at once, where nothing is in it: for a connection that is seldom used.
 * True: it had some. */
bool amb_tls_rest(struct amb_tls *tls);
/* Gives the memory back of a connection that has done nothing since the last call of this. True: it
 * had some. Called now and then, a second apart. */
bool amb_tls_trim(struct amb_tls *tls);
/* Tells the peer that nothing more comes, if the socket takes that now. */
void amb_tls_farewell(struct amb_tls *tls);
