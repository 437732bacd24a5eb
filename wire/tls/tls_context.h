/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of many connections: certificate, key, authorities, and the rules of TLS here.
 *
 *   TLS 1.3 alone; AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305; X25519, P-256, and hybrids of
 *   them where libssl has some. No tickets, no cache of sessions, no early data.
 *
 * A context never changes. A reload makes another one; connections keep the one they began with.
 *
 * Threads: any; the last reference frees it. Memory: counted.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_tls_context;
struct stat;

/* Files in PEM; NULL or "": none. */
struct amb_tls_files {
    const char *certificate; /* its own first, then those that issued it */
    const char *key;
    const char *ca;      /* the authorities that a peer's certificate may be of */
    const char *ca_text; /* their PEM, which was read of the file `ca` before; NULL: it is read */
    const char *crl;     /* certificates of theirs that are revoked */
};

enum amb_tls_file {
    AMB_TLS_CERTIFICATE,
    AMB_TLS_KEY,
    AMB_TLS_CA,
    AMB_TLS_CRL,
    AMB_TLS_FILES,
};

/* Certificates of clients: not asked for; checked if there is one; needed. */
enum amb_tls_clients {
    AMB_TLS_CLIENTS_NONE,
    AMB_TLS_CLIENTS_OPTIONAL,
    AMB_TLS_CLIENTS_REQUIRED,
};

struct amb_tls_complaint {
    enum amb_tls_file file; /* that it is about */
    char text[384];         /* "PATH has expired (it was valid until 2027-06-30)" */
};

/* A file that is in use. */
struct amb_tls_used {
    char path[256];
    int64_t modified_ns; /* when it was last written, as it was read */
    int64_t expires_s;   /* the earliest end of what is in it, since 1970; INT64_MAX: none */
};

/*
 * Of a broker: certificate and key are needed, and fit each other; where clients show certificates,
 * `ca` is needed too. EINVAL: *complaint says which file, and why. ENOMEM.
 */
AMB_MUST_CHECK enum amb_status amb_tls_context_create_server(const struct amb_tls_files *files,
                                                             enum amb_tls_clients clients,
                                                             struct amb_tls_complaint *complaint,
                                                             struct amb_tls_context **out);
/*
 * Of a client: all files are optional. Without `ca` the system's authorities are those that a
 * broker's certificate may be of. EINVAL, ENOMEM.
 */
AMB_MUST_CHECK enum amb_status amb_tls_context_create_client(const struct amb_tls_files *files,
                                                             struct amb_tls_complaint *complaint,
                                                             struct amb_tls_context **out);
/*
 * For a library: a program may exit while threads of the library are in TLS. From here on libcrypto
 * is not torn down under them. To be called before anything else of it is used; if the program has
 * used it already, nothing changes. Any thread, as often as you like.
 */
void amb_tls_outlive_exit(void);
void amb_tls_context_ref(struct amb_tls_context *context);
/* Sets *context to NULL; NULL is allowed. */
void amb_tls_context_unref(struct amb_tls_context **context);

/* Have both been made of the same files, as they were written then, by the same rules? NULL: of
 * none. */
bool amb_tls_context_is_same(const struct amb_tls_context *a, const struct amb_tls_context *b);
/* NULL: there is no such file. */
const struct amb_tls_used *amb_tls_context_used(const struct amb_tls_context *context,
                                                enum amb_tls_file file);
/* "certificate", "key", "ca", "crl" */
const char *amb_tls_file_name(enum amb_tls_file file);
/* As amb_tls_used.modified_ns is, of a file now. */
int64_t amb_tls_modified_ns(const struct stat *st);
