/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DESIGN. Records are made until the buffer is full, then they go to the socket by one call. While
 * some of them wait there, no more are made. So an empty buffer says that everything taken is in
 * the socket. Small pieces are copied together to fill a record, large ones are encrypted
 * from where they lie. On the way in one read fills the buffer, and libssl takes its records from
 * there.
 */
#include "wire/tls/tls_io.h"

#include "wire/tls/tls_state.h"
#include "wire/tls/tls_words.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>

#define RECORD_LEAST ((size_t)4 << 10) /* with less room, and no memory for more, it waits */

/* ---- receiving ---- */

/* Plain bytes out of what is there; 0: there are none. */
static size_t read_plain(struct amb_tls *tls, uint8_t *out, size_t len)
{
    const struct amb_tls_buffer *in = &tls->pipe.in;
    for (;;) {
        size_t got = 0;
        if (tls->reads == TLS_READS) {
            return 0;
        }
        tls->reads++;
        tls->waits_for_room = false;
        amb_tls_forget_errors();
        int result = SSL_read_ex(tls->ssl, out, len, &got);
        if (tls->end == TLS_FAILED) {
            return 0;
        }
        if (result == 1) {
            tls->heard_bytes += got;
            return got;
        }
        if (amb_tls_note_failure(tls, result)) {
            if (tls->end == TLS_FAILED) {
                amb_tls_explain_failure(tls);
            }
            return 0;
        }
        /* Else it was no data, as a change of keys, and more may follow. */
        if (tls->waits_for_room || amb_tls_buffer_len(in) == 0) {
            return 0;
        }
    }
}

/* Fills one piece. False: no more can be had now. */
static bool receive_piece(struct amb_tls *tls, const struct iovec *iov, bool *is_short,
                          size_t *total)
{
    size_t at = 0;
    while (at < iov->iov_len) {
        size_t got = tls->end == TLS_OPEN
                         ? read_plain(tls, (uint8_t *)iov->iov_base + at, iov->iov_len - at)
                         : 0;
        at += got;
        *total += got;
        if (got != 0) {
            continue;
        }
        if (tls->waits_for_room || tls->reads == TLS_READS) {
            return false;
        }
        if (tls->end == TLS_OPEN && tls->pipe.has_ended) {
            tls->end = TLS_CLOSED;
        }
        /* Half a record may have the end behind it, of which no other edge tells. */
        bool is_enough = *is_short && *total != 0;
        if (tls->end != TLS_OPEN || is_enough ||
            (amb_tls_fill(tls, is_short) == 0 && !tls->pipe.has_ended)) {
            return false;
        }
        /* At the end, one more look: libssl says whether it was in order. */
        *is_short = *is_short && !tls->pipe.has_ended;
    }
    return true;
}

ssize_t amb_tls_receive(struct amb_tls *tls, const struct iovec *iov, size_t count)
{
    size_t total = 0;
    bool is_short = false, was_waiting = amb_tls_has_unsent(tls);
    tls->reads = 0;
    for (size_t i = 0; i < count && receive_piece(tls, &iov[i], &is_short, &total); i++) {
    }
    if (!was_waiting && amb_tls_has_unsent(tls) && !tls->is_mute) {
        (void)amb_tls_push(tls); /* An answer to a change of keys. */
    }
    if (total != 0) {
        return (ssize_t)total;
    }
    if (tls->end == TLS_CLOSED) {
        return 0;
    }
    errno = tls->end == TLS_FAILED ? tls->end_errno : EAGAIN;
    return -1;
}

bool amb_tls_has_unread(const struct amb_tls *tls)
{
    if (tls->waits_for_room && tls->end == TLS_OPEN) {
        return !amb_tls_has_unsent(tls); /* Until then nothing can be read. */
    }
    return tls->reads == TLS_READS || SSL_pending(tls->ssl) > 0 ||
           amb_tls_buffer_len(&tls->pipe.in) != 0 || tls->pipe.has_ended || tls->end != TLS_OPEN;
}

/* ---- sending ---- */

struct cursor {
    const struct iovec *iov;
    size_t count;
    size_t at; /* in the first of them */
};

static void skip_empty(struct cursor *cursor)
{
    while (cursor->count != 0 && cursor->at == cursor->iov->iov_len) {
        cursor->iov++;
        cursor->count--;
        cursor->at = 0;
    }
}

static void advance(struct cursor *cursor, size_t len)
{
    while (len != 0) {
        size_t here = cursor->iov->iov_len - cursor->at;
        size_t part = len < here ? len : here;
        cursor->at += part;
        len -= part;
        skip_empty(cursor);
    }
}

/* The next bytes, at most `most`: where they lie if they are enough, else copied together. */
static const uint8_t *next_piece(const struct cursor *cursor, size_t most, uint8_t *scratch,
                                 size_t *len)
{
    const uint8_t *first = (const uint8_t *)cursor->iov->iov_base + cursor->at;
    size_t here = cursor->iov->iov_len - cursor->at;
    if (here >= most || cursor->count == 1) {
        *len = here < most ? here : most;
        return first;
    }
    size_t filled = 0, at = cursor->at;
    for (size_t i = 0; i < cursor->count && filled < most; i++, at = 0) {
        size_t part = cursor->iov[i].iov_len - at;
        part = part < most - filled ? part : most - filled;
        if (part != 0) {
            memcpy(scratch + filled, (const uint8_t *)cursor->iov[i].iov_base + at, part);
            filled += part;
        }
    }
    *len = filled;
    return scratch;
}

/* Plain bytes that one record may have now; 0: none. There is room for a change of keys, too. */
static size_t record_room(struct amb_tls *tls)
{
    struct amb_tls_buffer *out = &tls->pipe.out;
    if (amb_tls_buffer_reserve(out, TLS_RECORD + 2 * TLS_RECORD_EXTRA, &tls->pipe.charge)) {
        return TLS_RECORD;
    }
    if (!amb_tls_buffer_reserve(out, RECORD_LEAST + 2 * TLS_RECORD_EXTRA, &tls->pipe.charge)) {
        return 0;
    }
    return out->cap - out->end - 2 * TLS_RECORD_EXTRA;
}

/* Returns how many of the bytes it has: a peer may have asked for short ones. 0: it has failed. */
static size_t write_record(struct amb_tls *tls, const uint8_t *bytes, size_t len)
{
    size_t written = 0;
    amb_tls_forget_errors();
    if ((tls->sent_bytes + len > tls->rekey_bytes || tls->sent_records >= tls->rekey_records) &&
        SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
        tls->sent_bytes = tls->sent_records = 0;
    }
    if (SSL_write_ex(tls->ssl, bytes, len, &written) != 1) {
        amb_tls_explain_failure(tls);
        (void)amb_tls_mute(tls, EPROTO);
        return 0;
    }
    tls->sent_bytes += written;
    tls->sent_records++;
    return written;
}

/* Records until the buffer is full, or nothing is left. Returns the plain bytes in them. */
static size_t fill_out(struct amb_tls *tls, struct cursor *cursor)
{
    uint8_t scratch[TLS_RECORD];
    size_t total = 0;
    while (cursor->count != 0) {
        size_t room = record_room(tls), len;
        if (room == 0) {
            if (!amb_tls_has_unsent(tls)) {
                (void)amb_tls_mute(tls, ENOMEM);
            }
            break;
        }
        const uint8_t *piece = next_piece(cursor, room, scratch, &len);
        size_t written = write_record(tls, piece, len);
        if (written == 0) {
            break;
        }
        advance(cursor, written);
        total += written;
    }
    return total;
}

ssize_t amb_tls_send(struct amb_tls *tls, const struct iovec *iov, size_t count)
{
    struct cursor cursor = {.iov = iov, .count = count};
    size_t total = 0;
    skip_empty(&cursor);
    bool is_good = amb_tls_push(tls);
    while (is_good && !amb_tls_has_unsent(tls) && cursor.count != 0) {
        total += fill_out(tls, &cursor);
        is_good = amb_tls_push(tls);
    }
    if (!is_good) {
        return -1;
    }
    if (total == 0 && cursor.count != 0) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)total;
}

/* ---- the end, and rest ---- */

void amb_tls_farewell(struct amb_tls *tls)
{
    if (tls->is_done && !tls->is_mute && tls->end != TLS_FAILED) {
        ERR_clear_error();
        (void)SSL_shutdown(tls->ssl);
        ERR_clear_error();
        (void)amb_tls_push(tls);
    }
}

bool amb_tls_rest(struct amb_tls *tls)
{
    struct amb_tls_pipe *pipe = &tls->pipe;
    if (!tls->is_done || tls->moved_at_rest == tls->moved + 1 ||
        amb_tls_buffer_len(&pipe->in) != 0 || amb_tls_has_unsent(tls) ||
        SSL_pending(tls->ssl) > 0) {
        return false;
    }
    tls->moved_at_rest = tls->moved + 1;
    amb_tls_buffer_release(&pipe->in, &pipe->charge);
    amb_tls_buffer_release(&pipe->out, &pipe->charge);
    (void)SSL_free_buffers(tls->ssl); /* Not while half a record is there. */
    return true;
}

bool amb_tls_trim(struct amb_tls *tls)
{
    if (tls->moved != tls->moved_at_trim) {
        tls->moved_at_trim = tls->moved;
        return false;
    }
    return amb_tls_rest(tls);
}
