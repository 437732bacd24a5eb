/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to libcrypto's question for the passphrase of a key in PEM: there is none, and no
 * terminal is asked.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A pem_password_cb of <openssl/pem.h>. arg: a bool that tells of the question, or NULL. */
static inline int amb_no_passphrase(char *out, int size, int is_for_writing, void *arg)
{
    (void)out;
    (void)size;
    (void)is_for_writing;
    if (arg != NULL) {
        *(bool *)arg = true;
    }
    return -1;
}
