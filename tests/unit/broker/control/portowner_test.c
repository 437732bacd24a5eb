/* SPDX-License-Identifier: Apache-2.0 */
/* broker/portowner: the process that listens on a port, over IPv4 and IPv6; nobody on others. */
#include "broker/control/portowner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_our_own_listener_is_ours(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    uint16_t port = ntohs(address.sin_port);
    assert_int_equal(amb_port_owner(port), 0); /* Bound, but nobody listens. */
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(amb_port_owner(port), getpid());
    (void)close(fd);
    assert_int_equal(amb_port_owner(port), 0);
}

static void test_listeners_over_ipv6_are_found(void **state)
{
    (void)state;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0) {
        skip(); /* A machine without IPv6. */
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(amb_port_owner(ntohs(address.sin6_port)), getpid());
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_our_own_listener_is_ours),
        cmocka_unit_test(test_listeners_over_ipv6_are_found),
    };
    return cmocka_run_group_tests_name("broker/portowner", tests, NULL, NULL);
}
