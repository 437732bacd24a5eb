/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of one's own: an authority, and certificates that it issues. Keys are of P-256.
 * Threads: any. Memory: a pair is its maker's.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/tls/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TLS_COMMON_NAME_MAX 64u
#define AMB_TLS_NAMES_MAX 64u /* hosts and addresses of one certificate */

enum amb_tls_role {
    AMB_TLS_AUTHORITY,
    AMB_TLS_SERVER,
    AMB_TLS_CLIENT,
};

struct amb_tls_request {
    enum amb_tls_role role;
    const char *name;         /* for people: 1 to 64 bytes */
    const char *const *names; /* hosts' names and addresses; SPIFFE URIs as "spiffe://..." */
    size_t name_count;
    int64_t from_s, until_s; /* since 1970 */
};

/* A certificate with its key. */
struct amb_tls_pair;

/* issuer NULL: by itself. EINVAL: error says which name is none. ENOMEM, EINTERNAL. */
AMB_MUST_CHECK enum amb_status amb_tls_issue(const struct amb_tls_request *request,
                                             const struct amb_tls_pair *issuer, char *error,
                                             size_t error_size, struct amb_tls_pair **out);
/* Another certificate of the same names, role and key, of another time. Another issuer may make it.
 */
AMB_MUST_CHECK enum amb_status amb_tls_renew(const struct amb_tls_pair *old,
                                             const struct amb_tls_pair *issuer, int64_t from_s,
                                             int64_t until_s, char *error, size_t error_size,
                                             struct amb_tls_pair **out);
/* Of two files. The certificate may have expired. EINVAL: error has a sentence. */
AMB_MUST_CHECK enum amb_status amb_tls_pair_read(const char *certificate, const char *key,
                                                 char *error, size_t error_size,
                                                 struct amb_tls_pair **out);
/* The certificate as PEM, in the caller's memory by free. NULL: no memory. */
char *amb_tls_pair_certificate(const struct amb_tls_pair *pair);
/* The key as PEM, the same; to be overwritten before it is freed. */
char *amb_tls_pair_key(const struct amb_tls_pair *pair);
/* "sha256/..." of its public key: size is AMB_TLS_PIN_TEXT_MAX at least. False: libcrypto has
 * failed. */
bool amb_tls_pair_pin(const struct amb_tls_pair *pair, char *out, size_t size);
int64_t amb_tls_pair_until_s(const struct amb_tls_pair *pair);
/* "a.example, 192.0.2.1": its names, as its file has them. */
void amb_tls_pair_names(const struct amb_tls_pair *pair, char *out, size_t size);
void amb_tls_pair_free(struct amb_tls_pair **pair);
