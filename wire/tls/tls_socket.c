/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls_socket.h"

#include "wire/tls/tls_state.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool amb_tls_has_unsent(const struct amb_tls *tls)
{
    return amb_tls_buffer_len(&tls->pipe.out) != 0;
}

bool amb_tls_mute(struct amb_tls *tls, int why)
{
    tls->is_mute = true;
    tls->mute_errno = why;
    errno = why;
    return false;
}

bool amb_tls_push(struct amb_tls *tls)
{
    struct amb_tls_buffer *out = &tls->pipe.out;
    if (tls->is_mute) {
        errno = tls->mute_errno;
        return false;
    }
    while (amb_tls_buffer_len(out) != 0) {
        size_t len = amb_tls_buffer_len(out);
        ssize_t sent = send(tls->fd, out->bytes + out->start, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK || amb_tls_mute(tls, errno);
        }
        tls->moved++;
        amb_tls_buffer_consume(out, (size_t)sent);
        if ((size_t)sent < len) {
            return true;
        }
    }
    return true;
}

/* Room for a read. It grows where the last read has filled it all. Before the handshake is done it
 * does not: nobody is charged for it yet. */
static bool make_room(struct amb_tls *tls)
{
    struct amb_tls_buffer *in = &tls->pipe.in;
    if (tls->is_done && tls->was_filled && in->cap < AMB_TLS_BUFFER_MAX &&
        amb_tls_buffer_len(in) == 0) {
        (void)amb_tls_buffer_reserve(in, in->cap + 1, &tls->pipe.charge); /* Else as it is. */
    }
    return amb_tls_buffer_reserve(in, 1, &tls->pipe.charge);
}

static size_t fill_failed(struct amb_tls *tls, int why)
{
    tls->end = TLS_FAILED;
    tls->end_errno = why;
    if (tls->why[0] == '\0' && (tls->is_done || why == ENOMEM)) {
        (void)snprintf(tls->why, sizeof(tls->why), "%s", strerrordesc_np(why));
    }
    return 0;
}

size_t amb_tls_fill(struct amb_tls *tls, bool *is_short)
{
    struct amb_tls_buffer *in = &tls->pipe.in;
    *is_short = true;
    if (tls->end != TLS_OPEN || tls->pipe.has_ended) {
        return 0;
    }
    if (!make_room(tls)) {
        return fill_failed(tls, ENOMEM);
    }
    size_t room = in->cap - in->end;
    ssize_t got;
    do {
        got = recv(tls->fd, in->bytes + in->end, room, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : fill_failed(tls, errno);
    }
    if (got == 0) {
        tls->pipe.has_ended = true;
        return 0;
    }
    if (!tls->was_heard) {
        tls->was_heard = true;
        tls->first = in->bytes[in->end];
    }
    tls->moved++;
    in->end += (size_t)got;
    tls->was_filled = (size_t)got == room;
    *is_short = !tls->was_filled;
    return (size_t)got;
}

/* ---- libssl ---- */

bool amb_tls_note_failure(struct amb_tls *tls, int result)
{
    int error = SSL_get_error(tls->ssl, result);
    if (tls->end == TLS_FAILED) {
        return true; /* A callback has seen it. */
    }
    if (error == SSL_ERROR_WANT_READ) {
        return false;
    }
    if (error == SSL_ERROR_WANT_WRITE && amb_tls_has_unsent(tls)) {
        tls->waits_for_room = true;
        return false;
    }
    if (error == SSL_ERROR_WANT_WRITE) {
        (void)fill_failed(tls, ENOMEM); /* Nothing is in its way. */
        return true;
    }
    bool is_cut = error == SSL_ERROR_SSL &&
                  ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (error == SSL_ERROR_ZERO_RETURN || is_cut) {
        tls->end = TLS_CLOSED;
        ERR_clear_error();
        return true;
    }
    tls->end = TLS_FAILED;
    tls->end_errno = EPROTO;
    return true;
}
