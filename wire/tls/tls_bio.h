/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BIO that libssl reads and writes: two buffers in memory, and no system call. The connection
 * fills the one and empties the other, so that many records go by one call.
 * Threads: owner. Memory: the buffers' own. Only this room includes it.
 */
#pragma once

#include "wire/tls/tls_buffer.h"

#include <openssl/bio.h>

struct amb_tls_pipe {
    struct amb_tls_buffer in, out;
    struct amb_tls_charge charge;
    bool has_ended; /* nothing more will come: reads behind the last byte find the end */
};

/* A BIO on *pipe, which stays the caller's and must not move. NULL: no memory. */
BIO *amb_tls_bio_new(struct amb_tls_pipe *pipe);
