/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's own credentials: its file (wire/auth/credentials_file.h), read before each session,
 * and the answer to a Challenge.
 *
 * Threads: the caller of amb_connect, or the thread of a reconnect. Memory: the caller's, by
 * amb_own_fini.
 */
#pragma once

#include "client/session/dial.h"
#include "wire/auth/credentials_file.h"

struct amb_client_config;

struct amb_own {
    struct amb_credentials credentials;
    const char *path;              /* the configuration's; "": no file */
    char why[AMB_PRIVATE_WHY_MAX]; /* why there are none: told where a broker asks for them */
};

/* Memory that an Auth points into until it is sent. */
struct amb_own_answer {
    uint8_t proof[AMB_SIGNATURE_SIZE];
    uint8_t key[AMB_CREDENTIAL_KEY_SIZE];
};

/* EINVAL: it is a credentials file, and a wrong one. A file that is missing, or no token, is an
 * error only where a broker asks for it. ENOMEM. */
AMB_MUST_CHECK enum amb_status
amb_own_read(struct amb_own *own, const struct amb_client_config *config, struct amb_error *error);
void amb_own_fini(struct amb_own *own);
/* Fills in the proof that this Challenge asks for. A token is told to nobody but inside TLS or on a
 * Unix socket. EAUTH: there is none that the broker takes; EPROTO, EINTERNAL. */
AMB_MUST_CHECK enum amb_status amb_own_answer(const struct amb_own *own, struct amb_dial *dial,
                                              bool is_unix,
                                              const Amb__Control__Challenge *challenge,
                                              struct amb_own_answer *room,
                                              Amb__Control__Auth *auth);
