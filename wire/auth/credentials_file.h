/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's credentials file. Its first line decides.
 *
 *   ambroker credentials 1
 *   url = tls://broker.example:4733
 *   user = cam7
 *   -----BEGIN CERTIFICATE-----      authorities of the broker's certificate
 *   -----BEGIN PRIVATE KEY-----      an Ed25519 key
 *
 * Each part may be missing, and certificates may be several. Lines that begin with '#' are
 * comments. Any other first line is a token, and the rest of such a file does not count. A first
 * line that nearly is ours is no token, nor is that of a file with a private key. Such a "token"
 * would be known to everybody.
 *
 * Threads: any. Memory: the caller's, by amb_credentials_fini.
 */
#pragma once

#include "wire/auth/private_file.h"
#include "wire/auth/signer.h"
#include "wire/auth/user_line.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define AMB_CREDENTIALS_FIRST "ambroker credentials 1"
#define AMB_CREDENTIALS_FILE_MAX ((size_t)256 << 10)
#define AMB_CREDENTIALS_URL_MAX 2047u
#define AMB_CREDENTIALS_TOKEN_MAX 4095u

struct amb_credentials {
    char *token;               /* of a file that is one; NULL: it is not */
    char *url, *user;          /* NULL: none */
    char *ca;                  /* certificates in PEM, one after the other; NULL: none */
    struct amb_signer *signer; /* NULL: none */
};

/*
 * Reads a regular file: a pipe, or a device, might keep the caller waiting. One with `ambroker
 * credentials 1` must be its owner's alone, as private_file.h has it. A token may be read by
 * others, as it always could. EINVAL: `why` has "FILE:LINE: reason". ENOMEM, the same. *is_file,
 * also on failure: it is such a file, or is meant to be one.
 */
AMB_MUST_CHECK enum amb_status amb_credentials_read(const char *path, struct amb_credentials *out,
                                                    bool *is_file, char why[AMB_PRIVATE_WHY_MAX]);
/* The same of a text, of which `len` bytes and a NUL are written to. path is for reasons. */
AMB_MUST_CHECK enum amb_status amb_credentials_parse(char *text, size_t len, const char *path,
                                                     struct amb_credentials *out,
                                                     char why[AMB_PRIVATE_WHY_MAX]);
/* Overwrites secrets. Harmless twice, and on zeros. */
void amb_credentials_fini(struct amb_credentials *credentials);
/* A file's text, in the caller's memory by amb_private_text_free. Parts that are NULL are left out.
 * NULL: no memory. */
char *amb_credentials_format(const struct amb_credentials *credentials);
