/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two protocols behind a `tls://` door, by ALPN: a control connection, and a stream link.
 * Threads: any. Only this room includes it.
 */
#pragma once

#include "wire/tls/tls.h"

#include <openssl/ssl.h>

/* The client's wish, as SSL_set_alpn_protos takes it. False: no memory. */
bool amb_tls_alpn_offer(SSL *ssl, enum amb_tls_alpn alpn);
/* The broker's answer: the first of ours that the client offers. */
int amb_tls_alpn_select(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                        const unsigned char *in, unsigned in_len, void *arg);
/* The one that both agreed on. False: none of ours. */
bool amb_tls_alpn_agreed(const SSL *ssl, enum amb_tls_alpn *out);
