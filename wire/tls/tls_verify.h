/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it the broker that the client means? By chain and name, or by the pin of its public key.
 * Threads: the connection's. Only this room includes it.
 */
#pragma once

#include "wire/tls/tls.h"

#include <openssl/x509_vfy.h>

/* As libssl's callback: 1 or 0. Leaves a sentence in the connection. */
int amb_tls_verify_broker(X509_STORE_CTX *store, void *arg);
/* The host that the certificate must be for. EINVAL: it is none, or it is too long; ENOMEM. */
enum amb_status amb_tls_verify_expect(struct amb_tls *tls, const char *name);
/* "sha256/..." as bytes. False: it is none. */
bool amb_tls_pin_parse(const char *text, uint8_t out[AMB_TLS_PIN_SIZE]);
/* Of a certificate's public key. False: libcrypto has failed. */
bool amb_tls_pin_of(const X509 *certificate, uint8_t out[AMB_TLS_PIN_SIZE]);
/* "sha256/..."; out has AMB_TLS_PIN_TEXT_MAX bytes. */
void amb_tls_pin_format(const uint8_t pin[AMB_TLS_PIN_SIZE], char *out);
/* "a.example, 192.0.2.1": the names that a certificate is for, cut where they are too many. */
void amb_tls_names_of(const X509 *certificate, char *out, size_t size);
