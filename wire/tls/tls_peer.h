/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate that a client has shown, and that the handshake has checked. A user may be known
 * by its public key, or by one of its names.
 *
 * Threads: the connection's. Memory: none.
 */
#pragma once

#include "wire/tls/tls.h"

/* Has the peer shown a certificate? Its chain is good then, or the handshake had failed. */
bool amb_tls_peer_has_certificate(const struct amb_tls *tls);
/* "sha256/..." of its public key. False: there is none. */
bool amb_tls_peer_pin(const struct amb_tls *tls, char out[AMB_TLS_PIN_TEXT_MAX]);
/* Calls fn for each of its names, in the certificate's order, until it returns false. A name is
 * "uri=...", "dns=..." or "email=..."; others, and names with bytes that do not print, are left
 * out. */
void amb_tls_peer_names(const struct amb_tls *tls, bool (*fn)(const char *name, void *arg),
                        void *arg);
