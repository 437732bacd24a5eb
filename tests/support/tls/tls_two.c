/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tls/tls_two.h"

#include "tests/support/tcp_pair.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000
#define STEPS_MAX 10000u

void tls_two_connect(struct tls_two *two)
{
    int fds[2];
    memset(two, 0, sizeof(*two));
    tcp_pair(fds);
    two->client_fd = fds[0];
    two->broker_fd = fds[1];
}

void tls_two_connect_narrow(struct tls_two *two, int bytes)
{
    int fds[2];
    memset(two, 0, sizeof(*two));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    }
    two->broker_fd = fds[0];
    two->client_fd = fds[1];
}

void tls_two_dress(struct tls_two *two, struct amb_tls_context *broker,
                   struct amb_tls_context *client, const struct amb_tls_wish *wish)
{
    assert_int_equal(amb_tls_create_accepting(broker, two->broker_fd, &two->broker), AMB_OK);
    assert_int_equal(amb_tls_create_connecting(client, two->client_fd, wish, &two->client), AMB_OK);
}

void tls_two_make(struct tls_two *two, struct amb_tls_context *broker,
                  struct amb_tls_context *client, const struct amb_tls_wish *wish)
{
    tls_two_connect(two);
    tls_two_dress(two, broker, client, wish);
}

static enum amb_status step(struct amb_tls *tls, int fd, enum amb_status before)
{
    short events = 0;
    if (before != AMB_EAGAIN) {
        return before;
    }
    enum amb_status status = amb_tls_step(tls, &events);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        (void)shutdown(fd, SHUT_RDWR);
    }
    return status;
}

void tls_two_shake(struct tls_two *two)
{
    two->broker_status = two->client_status = AMB_EAGAIN;
    for (unsigned i = 0; two->broker_status == AMB_EAGAIN || two->client_status == AMB_EAGAIN;
         i++) {
        assert_true(i < STEPS_MAX);
        two->client_status = step(two->client, two->client_fd, two->client_status);
        two->broker_status = step(two->broker, two->broker_fd, two->broker_status);
        struct pollfd fds[2] = {{.fd = two->broker_fd, .events = POLLIN},
                                {.fd = two->client_fd, .events = POLLIN}};
        (void)poll(fds, 2, 1);
    }
}

void tls_two_await(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
}

void tls_two_fini(struct tls_two *two)
{
    amb_tls_destroy(&two->broker);
    amb_tls_destroy(&two->client);
    (void)close(two->broker_fd);
    (void)close(two->client_fd);
}
