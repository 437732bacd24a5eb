/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of TLS for fuzz targets, over pairs of Unix sockets. Certificates are made once and go
 * with the process.
 * Threads: one. Memory: a pair is given back by tls_two_fini.
 */
#pragma once

#include "tests/fuzz/fuzz.h"
#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/base/assert.h"
#include "wire/tls/tls_io.h"

#include <sys/socket.h>

#define FUZZ_TLS_BUFFER (1 << 20) /* bytes that a socket may hold */
#define FUZZ_TLS_STEPS 1000u      /* of a handshake, at most */

static struct amb_tls_context *fuzz_tls_server, *fuzz_tls_client;

FUZZ_PLAIN static inline void fuzz_tls_init(void)
{
    struct tls_made made;
    if (fuzz_tls_server != NULL) {
        return;
    }
    tls_made_ends(&made, "broker.example", &fuzz_tls_server, &fuzz_tls_client);
    tls_made_fini(&made);
}

/* Both ends through their handshake, on the descriptors of *two. */
FUZZ_PLAIN static inline void fuzz_tls_shake(struct tls_two *two, enum amb_tls_alpn alpn)
{
    const struct amb_tls_wish wish = {.alpn = alpn, .name = "broker.example"};
    short events;
    tls_two_dress(two, fuzz_tls_server, fuzz_tls_client, &wish);
    two->broker_status = two->client_status = AMB_EAGAIN;
    for (unsigned i = 0; two->broker_status != AMB_OK || two->client_status != AMB_OK; i++) {
        amb_assert(i < FUZZ_TLS_STEPS); /* On a pair of sockets nobody needs to wait. */
        if (two->client_status == AMB_EAGAIN) {
            two->client_status = amb_tls_step(two->client, &events);
        }
        if (two->broker_status == AMB_EAGAIN) {
            two->broker_status = amb_tls_step(two->broker, &events);
        }
    }
}

/* One piece of plain bytes. Returns what went in. */
FUZZ_PLAIN static inline size_t fuzz_tls_say(struct amb_tls *tls, const void *bytes, size_t len)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    ssize_t sent = len == 0 ? 0 : amb_tls_send(tls, &iov, 1);
    return sent > 0 ? (size_t)sent : 0;
}
