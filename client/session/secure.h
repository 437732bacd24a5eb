/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS of a session that begins: the files it needs, and the handshake on a dialled connection.
 * Threads: the caller of amb_connect, or the thread of a reconnect. Memory: the context is the
 * caller's reference; TLS is the dial's.
 */
#pragma once

#include "client/session/dial.h"
#include "wire/tls/tls.h"

struct amb_client_config;
struct amb_own;

/* TLS as the program wishes for it. */
struct amb_secure {
    struct amb_tls_context *context; /* NULL: the URL is no tls:// one */
    const struct amb_client_config *config;
};

/*
 * Reads the files for that URL; nothing for one that is not encrypted. The authorities of the
 * client's credentials serve where none are named. EINVAL, and a sentence: the authorities, or the
 * certificate of this client, are of no use.
 */
AMB_MUST_CHECK enum amb_status amb_secure_init(struct amb_secure *secure, const struct amb_url *url,
                                               const struct amb_client_config *config,
                                               const struct amb_own *own, struct amb_error *error);
void amb_secure_fini(struct amb_secure *secure);
/* The handshake, within the dial's deadline; nothing without a context. EUNREACHABLE: it is another
 * broker, or none; EAUTH: it does not take our certificate. */
AMB_MUST_CHECK enum amb_status amb_secure_shake(const struct amb_secure *secure,
                                                struct amb_dial *dial, const struct amb_url *url,
                                                enum amb_tls_alpn alpn);
