/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credentials of a users file, as text. Each has one spelling only, so that equal credentials
 * are equal texts.
 *
 *   key/MCowBQYDK2VwAyEA...      an Ed25519 public key: base64 of its SubjectPublicKeyInfo
 *   token/sha256-9f86d0...       SHA-256 of a token, in 64 hexadecimal digits
 *   cert/uri=spiffe://plant/web  a name in a certificate: uri=, dns= or email=, compared exactly
 *   cert/sha256/47DEQpj8...      SHA-256 of a certificate's public key: a pin, as in a URL
 *   uid/1000                     of a process at the other end of a Unix socket
 *
 * Threads: any. Memory: pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_CREDENTIAL_MAX 1024u /* bytes of its text, without NUL */
#define AMB_CREDENTIAL_KEY_SIZE 32u
#define AMB_CREDENTIAL_HASH_SIZE 32u
#define AMB_CREDENTIAL_TOKEN_MAX 255u /* bytes of a token */

enum amb_credential_kind {
    AMB_CREDENTIAL_KEY,
    AMB_CREDENTIAL_TOKEN,
    AMB_CREDENTIAL_CERT,
    AMB_CREDENTIAL_UID,
    AMB_CREDENTIAL_KINDS,
};

/* "key", "token", "cert", "uid" */
const char *amb_credential_kind_name(enum amb_credential_kind kind);

/* NULL: the text is a credential, of *kind. Else the reason, static, for people. */
const char *amb_credential_check(const char *text, enum amb_credential_kind *kind);

/* The text of each. `out` has AMB_CREDENTIAL_MAX + 1 bytes. */
void amb_credential_of_key(const uint8_t key[AMB_CREDENTIAL_KEY_SIZE], char *out);
void amb_credential_of_uid(uint32_t uid, char *out);
/* Of a token. False: libcrypto has failed. */
bool amb_credential_of_token(const void *token, size_t len, char *out);
/* Of a name, as "uri=spiffe://plant/web", or of a pin as "sha256/...". False: it is too long. */
bool amb_credential_of_cert(const char *name, char *out);
/* The opposite of amb_credential_of_key. False: it is no key. */
bool amb_credential_key(const char *text, uint8_t out[AMB_CREDENTIAL_KEY_SIZE]);
