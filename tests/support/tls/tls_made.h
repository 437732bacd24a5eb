/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates for tests, in a folder of their own: of an authority, and others by it.
 * Threads: owner. Memory: the folder and all in it go with tls_made_fini. Failures end the test.
 */
#pragma once

#include "wire/tls/tls.h"
#include "wire/tls/tls_issue.h"

#include <stdio.h>

struct tls_made {
    char folder[64];
    struct amb_tls_pair *ca; /* also as FOLDER/ca.pem and ca.key */
};

/* From so many seconds from now, to so many. */
struct tls_made_time {
    int64_t from_s, until_s;
};

#define TLS_MADE_DAY INT64_C(86400)

void tls_made_init(struct tls_made *made);
void tls_made_fini(struct tls_made *made);
/* FOLDER/BASE.pem and BASE.key, for one name (NULL: none), issued by the authority or, where that
 * is NULL, by itself. */
void tls_made_issue(const struct tls_made *made, const struct amb_tls_pair *issuer,
                    const char *base, enum amb_tls_role role, const char *name,
                    struct tls_made_time time);
/* The same from yesterday to in 100 days, by the authority. */
void tls_made_plain(const struct tls_made *made, const char *base, enum amb_tls_role role,
                    const char *name);
/* The pair of FOLDER/BASE.pem and BASE.key, which is the caller's. */
struct amb_tls_pair *tls_made_read(const struct tls_made *made, const char *base);
/* FOLDER/FILE in one of four buffers that come round. */
const char *tls_made_path(const struct tls_made *made, const char *file);
/* Writes a file of that mode. */
void tls_made_write(const struct tls_made *made, const char *file, const char *text, unsigned mode);
/* FOLDER/FILE: a revocation list of the authority, with the certificate FOLDER/REVOKED or none. */
void tls_made_revoke(const struct tls_made *made, const char *file, const char *revoked,
                     struct tls_made_time time);
/* The same of another authority, whose files are BY.pem and BY.key. */
void tls_made_revoke_by(const struct tls_made *made, const char *by, const char *file,
                        const char *revoked, struct tls_made_time time);
/* FOLDER/FILE: the files FOLDER/FIRST and FOLDER/SECOND, one behind the other. */
void tls_made_join(const struct tls_made *made, const char *file, const char *first,
                   const char *second);

/* Contexts: of a broker, with the certificate BASE; of a client, with BASE or, for NULL, without
 * one. Both trust the authority. */
struct amb_tls_context *tls_made_server(const struct tls_made *made, const char *base,
                                        enum amb_tls_clients clients);
struct amb_tls_context *tls_made_client(const struct tls_made *made, const char *base);
/* All that two ends need: `made`, a broker's certificate for that name, and a context of each. */
void tls_made_ends(struct tls_made *made, const char *name, struct amb_tls_context **server,
                   struct amb_tls_context **client);
void tls_made_ends_fini(struct tls_made *made, struct amb_tls_context **server,
                        struct amb_tls_context **client);
