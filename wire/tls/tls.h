/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TLS connection on a socket that does not block.
 *
 *   plain bytes ─► records, in a buffer ─► socket        amb_tls_send (tls_io.h)
 *   socket ─► a buffer of records ─► plain bytes         amb_tls_receive
 *
 * A handshake is a row of steps, each of which takes what is there and never waits. Afterwards it
 * is send and receive, which answer as sendmsg and recvmsg do. New keys come after 2^36 bytes or
 * 2^23 records, by themselves.
 *
 * Threads: one at a time; it may be handed to another thread as a whole. The socket stays its
 * owner's. Memory: of libssl, and two buffers that a connection at rest has not. Nothing is
 * allocated for a record.
 */
#pragma once

#include "wire/tls/tls_buffer.h"
#include "wire/tls/tls_context.h"

/* The protocols of a door. */
#define AMB_TLS_ALPN_CONTROL_NAME "amb/1"
#define AMB_TLS_ALPN_LINK_NAME "amb-link/1"

enum amb_tls_alpn {
    AMB_TLS_ALPN_CONTROL,
    AMB_TLS_ALPN_LINK,
};

#define AMB_TLS_PROTOCOL "TLS 1.3" /* there is no other one */

#define AMB_TLS_PIN_SIZE 32u     /* SHA-256 of a public key */
#define AMB_TLS_PIN_TEXT_MAX 52u /* "sha256/", 44 digits of base64, NUL */
#define AMB_TLS_NAME_MAX 255u    /* of a host */
/* Of the heap, that libssl has for a connection: its state, and two records. An estimate. */
#define AMB_TLS_HEAP ((size_t)48 << 10)

struct amb_tls;

/* A client's demands on the broker that it reaches. */
struct amb_tls_wish {
    enum amb_tls_alpn alpn;
    const char *name; /* a host's name or an address, that the certificate must be for */
    const char *pin;  /* "sha256/..." of the broker's public key: then no chain and no name counts;
                         NULL or "": none */
};

/* Of a context for brokers. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_tls_create_accepting(struct amb_tls_context *context, int fd,
                                                        struct amb_tls **out);
/* Of a context for clients. ENOMEM; EINVAL: the name or the pin is none, or the name is too long.
 */
AMB_MUST_CHECK enum amb_status amb_tls_create_connecting(struct amb_tls_context *context, int fd,
                                                         const struct amb_tls_wish *wish,
                                                         struct amb_tls **out);
/* Frees it, and tells the peer nothing. NULL is allowed; sets *tls to NULL. */
void amb_tls_destroy(struct amb_tls **tls);
/* From here on its memory is charged to that account, which takes over what there is. NULL: to
 * none. False: the account has no room, and it is charged to none. */
bool amb_tls_charge(struct amb_tls *tls, const struct amb_tls_charge *charge);

/*
 * One step of the handshake. AMB_OK: it is done. EAGAIN: *events (POLLIN, POLLOUT) must come first.
 * Any other status is the end, and amb_tls_why has a sentence. EUNREACHABLE: the peer is not who it
 * should be, or no TLS. EAUTH: the peer does not take our certificate. ELOST: it has gone. EPROTO,
 * ENOMEM.
 */
AMB_MUST_CHECK enum amb_status amb_tls_step(struct amb_tls *tls, short *events);
/* Has the peer's first byte come, and is it none of TLS? */
bool amb_tls_is_plain(const struct amb_tls *tls);
/* The protocol that both agreed on; the handshake is done. */
enum amb_tls_alpn amb_tls_agreed(const struct amb_tls *tls);

/* Why it has failed, as a sentence's end: "the broker's certificate expired on 2026-05-01". Lives
 * as long as the connection. */
const char *amb_tls_why(const struct amb_tls *tls);
/* The status of that failure: EAUTH, if the peer does not take our certificate; else EUNREACHABLE.
 */
enum amb_status amb_tls_refusal(const struct amb_tls *tls);
/* "TLS_AES_128_GCM_SHA256" */
const char *amb_tls_suite(const struct amb_tls *tls);
