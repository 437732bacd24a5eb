/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ed25519 keys of users, and the text that one signs to log in.
 *
 *   "ambroker login 1" | nonce, 32 bytes | u64 epoch | u32 length, server's name |
 *   u32 length, exporter of the TLS connection: 32 bytes, or none without TLS
 *
 * The nonce is the broker's and of one connection. Only the two ends of one TLS connection know its
 * exporter. So a signature that a broker in between passes on does not fit another connection.
 *
 * Threads: any. Memory: a signer is its maker's. Its key is overwritten when it is freed.
 */
#pragma once

#include "wire/auth/credential.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_SIGNATURE_SIZE 64u
#define AMB_LOGIN_NONCE_SIZE 32u
#define AMB_LOGIN_EXPORTER_SIZE 32u
#define AMB_LOGIN_SERVER_MAX 255u /* bytes of the server's name that are signed */
#define AMB_LOGIN_TEXT_MAX 400u

/* A login, as both ends know it. */
struct amb_login_facts {
    const uint8_t *nonce; /* AMB_LOGIN_NONCE_SIZE bytes */
    uint64_t epoch;
    const char *server;      /* as Challenge has it */
    const uint8_t *exporter; /* AMB_LOGIN_EXPORTER_SIZE bytes; NULL: without TLS */
};

struct amb_signer;

/* The text that is signed; its length. A longer name of a server is cut, at both ends. */
size_t amb_login_text(const struct amb_login_facts *facts, uint8_t out[AMB_LOGIN_TEXT_MAX]);

/* A new key. ENOMEM, EINTERNAL. */
AMB_MUST_CHECK enum amb_status amb_signer_create(struct amb_signer **out);
/* Of a PKCS #8 key in PEM, without a passphrase. EINVAL: it is no such key, or not of Ed25519. */
AMB_MUST_CHECK enum amb_status amb_signer_parse(const char *pem, size_t len,
                                                struct amb_signer **out);
/* NULL is allowed; sets *signer to NULL. */
void amb_signer_free(struct amb_signer **signer);
void amb_signer_public(const struct amb_signer *signer, uint8_t out[AMB_CREDENTIAL_KEY_SIZE]);
/* The key in PEM, in the caller's memory by amb_private_text_free (private_file.h). NULL: no
 * memory. */
char *amb_signer_format(const struct amb_signer *signer);
/* False: libcrypto has failed. */
bool amb_signer_sign(const struct amb_signer *signer, const uint8_t *text, size_t len,
                     uint8_t out[AMB_SIGNATURE_SIZE]);

/* Is it the signature of that text by that public key? Takes some 0.2 ms, whatever the answer. */
bool amb_signature_verify(const uint8_t key[AMB_CREDENTIAL_KEY_SIZE], const uint8_t *text,
                          size_t len, const uint8_t signature[AMB_SIGNATURE_SIZE]);
