/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a context, for the connections that are made from it.
 * Threads: any: it never changes. Only this room includes it.
 */
#pragma once

#include "wire/tls/tls_context.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

#define AMB_TLS_DIGEST_SIZE 32u

struct amb_tls_context {
    _Atomic uint32_t refs;
    SSL_CTX *ctx;
    bool is_server;
    enum amb_tls_clients clients;
    struct amb_tls_used used[AMB_TLS_FILES]; /* path "": no such file */
    uint8_t digest[AMB_TLS_DIGEST_SIZE];     /* of all that was loaded */
};
