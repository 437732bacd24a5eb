/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls.h"

#include "wire/base/assert.h"
#include "wire/tls/tls_alpn.h"
#include "wire/tls/tls_context_private.h"
#include "wire/tls/tls_socket.h"
#include "wire/tls/tls_state.h"
#include "wire/tls/tls_verify.h"
#include "wire/tls/tls_words.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_FILLS 8u        /* reads of the socket in one step */
#define HANDSHAKE_RECORD 22u /* the first byte of TLS, by a client */
#define ALERT_RECORD 21u     /* ... or by a broker that refuses it */

/* ---- life ---- */

/* A peer that changes its keys all the time makes us compute, and moves nothing. */
static void note_rekey(struct amb_tls *tls)
{
    if (tls->has_rekeyed && tls->heard_bytes < TLS_REKEY_APART && tls->end == TLS_OPEN) {
        tls->end = TLS_FAILED;
        tls->end_errno = EPROTO;
        (void)snprintf(tls->why, sizeof(tls->why),
                       "the peer changes its keys more than once a MiB");
    }
    tls->has_rekeyed = true;
    tls->heard_bytes = 0;
    tls->rekeys_heard++;
}

static void on_message(int is_sent, int version, int type, const void *bytes, size_t len, SSL *ssl,
                       void *arg)
{
    struct amb_tls *tls = arg;
    (void)version;
    (void)ssl;
    if (type != SSL3_RT_HANDSHAKE || len == 0 || *(const uint8_t *)bytes != SSL3_MT_KEY_UPDATE) {
        return;
    }
    if (is_sent != 0) {
        tls->rekeys_sent++;
    } else {
        note_rekey(tls);
    }
}

static enum amb_status create(struct amb_tls_context *context, int fd, struct amb_tls **out)
{
    struct amb_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return AMB_ENOMEM;
    }
    tls->fd = fd;
    tls->is_server = context->is_server;
    tls->rekey_bytes = TLS_REKEY_BYTES;
    tls->rekey_records = TLS_REKEY_RECORDS;
    tls->ssl = SSL_new(context->ctx);
    BIO *bio = tls->ssl == NULL ? NULL : amb_tls_bio_new(&tls->pipe);
    if (bio == NULL) {
        ERR_clear_error();
        amb_tls_destroy(&tls);
        return AMB_ENOMEM;
    }
    SSL_set_bio(tls->ssl, bio, bio);
    if (SSL_set_app_data(tls->ssl, tls) != 1) {
        ERR_clear_error();
        amb_tls_destroy(&tls);
        return AMB_ENOMEM;
    }
    SSL_set_msg_callback(tls->ssl, on_message);
    SSL_set_msg_callback_arg(tls->ssl, tls);
    *out = tls;
    return AMB_OK;
}

enum amb_status amb_tls_create_accepting(struct amb_tls_context *context, int fd,
                                         struct amb_tls **out)
{
    amb_assert(context->is_server);
    enum amb_status status = create(context, fd, out);
    if (status == AMB_OK) {
        SSL_set_accept_state((*out)->ssl);
    }
    return status;
}

static enum amb_status set_wish(struct amb_tls *tls, const struct amb_tls_wish *wish)
{
    tls->has_pin = wish->pin != NULL && wish->pin[0] != '\0';
    return tls->has_pin && !amb_tls_pin_parse(wish->pin, tls->pin)
               ? AMB_EINVAL
               : amb_tls_verify_expect(tls, wish->name);
}

enum amb_status amb_tls_create_connecting(struct amb_tls_context *context, int fd,
                                          const struct amb_tls_wish *wish, struct amb_tls **out)
{
    amb_assert(!context->is_server);
    struct amb_tls *tls;
    enum amb_status status = create(context, fd, &tls);
    if (status != AMB_OK) {
        return status;
    }
    SSL_set_connect_state(tls->ssl);
    tls->alpn = wish->alpn;
    status = set_wish(tls, wish);
    if (status == AMB_OK && !amb_tls_alpn_offer(tls->ssl, wish->alpn)) {
        status = AMB_ENOMEM;
    }
    ERR_clear_error();
    if (status != AMB_OK) {
        amb_tls_destroy(&tls);
        return status;
    }
    *out = tls;
    return AMB_OK;
}

bool amb_tls_charge(struct amb_tls *tls, const struct amb_tls_charge *charge)
{
    struct amb_tls_pipe *pipe = &tls->pipe;
    size_t there = pipe->in.cap + pipe->out.cap + AMB_TLS_HEAP;
    if (pipe->charge.give != NULL) {
        pipe->charge.give(pipe->charge.arg, there);
    }
    pipe->charge = (struct amb_tls_charge){.take = NULL};
    if (charge == NULL || charge->take == NULL) {
        return true;
    }
    bool has_room = charge->take(charge->arg, there);
    pipe->charge = has_room ? *charge : pipe->charge;
    return has_room;
}

void amb_tls_destroy(struct amb_tls **tls)
{
    struct amb_tls *gone = *tls;
    *tls = NULL;
    if (gone == NULL) {
        return;
    }
    (void)amb_tls_charge(gone, NULL);
    amb_tls_buffer_release(&gone->pipe.in, &gone->pipe.charge);
    amb_tls_buffer_release(&gone->pipe.out, &gone->pipe.charge);
    SSL_free(gone->ssl);
    free(gone);
}

/* ---- the handshake ---- */

bool amb_tls_is_plain(const struct amb_tls *tls)
{
    return tls->was_heard && tls->first != HANDSHAKE_RECORD &&
           (tls->is_server || tls->first != ALERT_RECORD);
}

/* It has ended, and not well. An alert goes out if the socket takes it. */
static enum amb_status fail(struct amb_tls *tls)
{
    enum amb_status status = amb_tls_explain_handshake(tls);
    if (!amb_tls_is_plain(tls)) {
        (void)amb_tls_push(tls);
    }
    tls->end = TLS_FAILED;
    tls->end_errno = EPROTO;
    return status;
}

static enum amb_status complete(struct amb_tls *tls)
{
    if (!amb_tls_alpn_agreed(tls->ssl, &tls->alpn)) {
        (void)snprintf(tls->why, sizeof(tls->why), "%s",
                       tls->is_server ? "the client does not say that it is one of ambroker"
                                      : "the broker is no door of ambroker");
        return fail(tls);
    }
    tls->is_done = true;
    return AMB_OK;
}

enum amb_status amb_tls_step(struct amb_tls *tls, short *events)
{
    bool is_short = false;
    for (unsigned fills = 0;; fills++) {
        if (amb_tls_is_plain(tls)) {
            return fail(tls);
        }
        ERR_clear_error();
        int result = SSL_do_handshake(tls->ssl);
        if (result == 1) {
            return amb_tls_push(tls) ? complete(tls) : fail(tls);
        }
        if (amb_tls_note_failure(tls, result)) {
            return fail(tls);
        }
        if (!amb_tls_push(tls)) {
            return fail(tls);
        }
        if (is_short || fills == STEP_FILLS ||
            (amb_tls_fill(tls, &is_short) == 0 && !tls->pipe.has_ended)) {
            break;
        }
    }
    if (tls->end != TLS_OPEN) {
        return fail(tls);
    }
    *events = (short)(POLLIN | (amb_tls_has_unsent(tls) ? POLLOUT : 0));
    return AMB_EAGAIN;
}

enum amb_tls_alpn amb_tls_agreed(const struct amb_tls *tls)
{
    amb_assert(tls->is_done);
    return tls->alpn;
}

/* ---- words ---- */

const char *amb_tls_why(const struct amb_tls *tls)
{
    return tls->why;
}

enum amb_status amb_tls_refusal(const struct amb_tls *tls)
{
    return tls->refusal == AMB_EAUTH ? AMB_EAUTH : AMB_EUNREACHABLE;
}

const char *amb_tls_suite(const struct amb_tls *tls)
{
    const char *name = SSL_get_cipher_name(tls->ssl);
    return name == NULL ? "?" : name;
}
