/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates, keys and revocation lists from PEM files. Each file is opened once, and all that is
 * wrong with it is told in one sentence that begins with its name.
 * Threads: any. Memory: the objects are the caller's. Only this room includes it.
 */
#pragma once

#include "wire/tls/tls_context.h"

#include <openssl/x509.h>

/* EINVAL, and a complaint. *chain: the certificates behind the first one, which issued it. Their
 * times are not looked at. */
enum amb_status amb_tls_load_certificate(const char *path, struct amb_tls_complaint *complaint,
                                         X509 **certificate, STACK_OF(X509) * *chain);
/* EINVAL: it has expired, or is not valid yet. */
enum amb_status amb_tls_check_time(const X509 *certificate, const char *path,
                                   struct amb_tls_complaint *complaint);
/* A key that others may read is refused, and so is one with a passphrase. */
enum amb_status amb_tls_load_key(const char *path, struct amb_tls_complaint *complaint,
                                 EVP_PKEY **out);
/* At least one of them is valid now. text: the file's PEM, or NULL: it is read. */
enum amb_status amb_tls_load_authorities(const char *path, const char *text,
                                         struct amb_tls_complaint *complaint,
                                         STACK_OF(X509) * *out);
/* Each is signed by one of `authorities`, and none is past its time. */
enum amb_status amb_tls_load_crls(const char *path, const STACK_OF(X509) * authorities,
                                  struct amb_tls_complaint *complaint, STACK_OF(X509_CRL) * *out);

/* Does the queue of errors begin with a lack of memory? Then nothing is wrong with a file. */
bool amb_tls_is_out_of_memory(void);
/* Says so, clears that queue and returns ENOMEM. */
enum amb_status amb_tls_out_of_memory(struct amb_tls_complaint *complaint);

/* "2027-06-30", or "?"; `out` has AMB_TLS_DATE_MAX bytes. Returns out. */
#define AMB_TLS_DATE_MAX 16u
const char *amb_tls_date(const ASN1_TIME *time, char *out);
/* Seconds since 1970; INT64_MAX where there is none. */
int64_t amb_tls_seconds(const ASN1_TIME *time);
