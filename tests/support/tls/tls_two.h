/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of TLS in one thread: a broker's and a client's, over TCP on the loopback interface.
 * Threads: owner. Memory: given back by tls_two_fini.
 */
#pragma once

#include "wire/tls/tls.h"

struct tls_two {
    struct amb_tls *broker, *client;
    int broker_fd, client_fd;
    /* Of the last tls_two_shake. */
    enum amb_status broker_status, client_status;
};

/* Connected sockets, and no TLS yet. */
void tls_two_connect(struct tls_two *two);
/* The same by a pair of Unix sockets, which hold so many bytes. */
void tls_two_connect_narrow(struct tls_two *two, int bytes);
/* TLS on both of them, without a handshake. */
void tls_two_dress(struct tls_two *two, struct amb_tls_context *broker,
                   struct amb_tls_context *client, const struct amb_tls_wish *wish);
/* Connected, and dressed. */
void tls_two_make(struct tls_two *two, struct amb_tls_context *broker,
                  struct amb_tls_context *client, const struct amb_tls_wish *wish);
/* Steps both until both are through, or have failed; the socket of one that has failed is shut. */
void tls_two_shake(struct tls_two *two);
void tls_two_fini(struct tls_two *two);
/* Until the socket has something to read. */
void tls_two_await(int fd);
