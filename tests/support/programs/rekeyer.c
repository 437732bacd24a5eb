/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer of an encrypted door that changes its keys all the time. It speaks TLS by libssl itself,
 * and uses nothing of ours.
 *
 *     rekeyer PORT COUNT TIMES
 *
 * COUNT connections, one after the other, each with TIMES changes; every second connection asks for
 * the broker's changes too, and never reads them. Prints a line of JSON with numbers of
 * connections: those whose handshake was done (through), that the broker ended (closed) or left
 * open (left). The last number (most) is how many changes one of them got rid of.
 */
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define ALPN                                                                                       \
    "\x05" /* its length */                                                                        \
    "amb/1"

static struct {
    unsigned through, closed, left, most;
} the;

static void fail(const char *what)
{
    (void)fprintf(stderr, "rekeyer: %s\n", what);
    exit(1);
}

static int connect_to(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    union {
        struct sockaddr_in *in;
        struct sockaddr *any;
    } cast = {.in = &address};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, cast.any, sizeof(address)) != 0) {
        fail("the door does not take a connection");
    }
    return fd;
}

/* Has the broker ended it, once all that it had to say has been read? */
static bool is_closed(int fd)
{
    char bytes[4096];
    struct pollfd one = {.fd = fd, .events = POLLIN};
    ssize_t got = 1;
    while (got > 0 && poll(&one, 1, PATIENCE_MS) == 1) {
        got = recv(fd, bytes, sizeof(bytes), 0);
    }
    return got <= 0;
}

/* Returns how many changes went out. */
static unsigned flood(SSL *ssl, unsigned times, bool asks)
{
    unsigned done = 0;
    int kind = asks ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;
    while (done < times && SSL_key_update(ssl, kind) == 1 && SSL_do_handshake(ssl) == 1) {
        done++;
    }
    return done;
}

static void one(SSL_CTX *ctx, unsigned port, unsigned times, bool asks)
{
    int fd = connect_to(port);
    SSL *ssl = SSL_new(ctx);
    if (ssl == NULL || SSL_set_fd(ssl, fd) != 1 ||
        SSL_set_alpn_protos(ssl, (const uint8_t *)ALPN, sizeof(ALPN) - 1) != 0) {
        fail("no memory");
    }
    if (SSL_connect(ssl) == 1) {
        the.through++;
        unsigned done = flood(ssl, times, asks);
        the.most = done > the.most ? done : the.most;
    }
    if (is_closed(fd)) {
        the.closed++;
    } else {
        the.left++;
    }
    SSL_free(ssl);
    (void)close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fprintf(stderr, "usage: rekeyer PORT COUNT TIMES\n");
        return 64;
    }
    unsigned port = (unsigned)strtoul(argv[1], NULL, 10);
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    unsigned times = (unsigned)strtoul(argv[3], NULL, 10);
    (void)signal(SIGPIPE, SIG_IGN);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL) {
        fail("no memory");
    }
    for (unsigned i = 0; i < count; i++) {
        one(ctx, port, times, i % 2 == 1);
    }
    (void)printf("{\"through\": %u, \"closed\": %u, \"left\": %u, \"most\": %u}\n", the.through,
                 the.closed, the.left, the.most);
    SSL_CTX_free(ctx);
    return 0;
}
