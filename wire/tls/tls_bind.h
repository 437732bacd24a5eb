/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that are bound to a TLS connection. Of Attach: a stream link's connection is of the client
 * that its control connection is of. Of Auth: a signature was made at this connection's other end.
 * Threads: that of both connections. Memory: none.
 */
#pragma once

#include "wire/tls/tls.h"

#define AMB_TLS_PROOF_SIZE 32u
#define AMB_TLS_EXPORTER_SIZE 32u

/*
 * Both ends compute the same HMAC-SHA256. Its key is exported by the first connection, over session
 * and generation. Its text is the second one's channel binding (RFC 9266). False: libcrypto has
 * failed.
 */
bool amb_tls_bind(struct amb_tls *control, struct amb_tls *link, uint32_t session,
                  uint32_t generation, uint8_t out[AMB_TLS_PROOF_SIZE]);
/* Of one connection, for a signature by which a user logs in. False: libssl has failed. */
bool amb_tls_login_exporter(const struct amb_tls *tls, uint8_t out[AMB_TLS_EXPORTER_SIZE]);
/* In constant time. */
bool amb_tls_proof_is(const uint8_t *proof, size_t len, const uint8_t expected[AMB_TLS_PROOF_SIZE]);
