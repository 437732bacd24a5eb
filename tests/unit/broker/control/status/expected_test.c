/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of this machine, and clients by hand. */
#include "broker/control/status/expected.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MB UINT64_C(1000000)

static struct amb_control control;
static struct amb_client client = {.control = &control, .fd = -1};
static char by[AMB_EXPECTED_TEXT_MAX];

static void this_machine_is_measured(void **state)
{
    (void)state;
    /* A rate that no machine of today misses, with a sanitizer and others beside it. */
    assert_in_range(amb_expected_measure_copy(), 10 * MB, 1000000 * MB);
    assert_in_range(amb_expected_measure_socket(), MB, 1000000 * MB);
}

static void a_ring_is_as_fast_as_memory_and_is_measured_once(void **state)
{
    (void)state;
    client.link = AMB_LINK_RING;
    client.is_unix = true;
    uint64_t rate = amb_expected_rate(&client, 5, by);
    assert_true(rate > 10 * MB);
    assert_non_null(strstr(by, "memory, measured"));
    assert_int_equal(amb_expected_rate(&client, 0, by), rate);
    control.rates.copy = 7;
    assert_int_equal(amb_expected_rate(&client, 0, by), 7);
}

static void a_local_stream_is_as_fast_as_sockets(void **state)
{
    (void)state;
    client.link = AMB_LINK_STREAM;
    client.is_unix = true;
    control.rates.socket = 9;
    assert_int_equal(amb_expected_rate(&client, 0, by), 9);
    assert_non_null(strstr(by, "sockets"));
}

static void ucx_says_its_own(void **state)
{
    (void)state;
    client.link = AMB_LINK_UCX;
    client.is_unix = false;
    assert_int_equal(amb_expected_rate(&client, 1234, by), 1234);
    assert_string_equal(by, "UCX's estimate");
    assert_int_equal(amb_expected_rate(&client, 0, by), 0);
    assert_non_null(strstr(by, "unknown"));
}

static void nobody_knows_a_connection_that_is_gone(void **state)
{
    (void)state;
    client.link = AMB_LINK_STREAM;
    client.is_unix = false;
    assert_int_equal(amb_expected_rate(&client, 0, by), 0);
    assert_non_null(strstr(by, "unknown"));
}

/* A listener of IPv6 takes clients of IPv4 too: its side of such a connection is ::ffff:127.0.0.1.
 * The other side has another address, as a client of another machine. */
static void an_interface_is_found_whatever_the_listeners_family(void **state)
{
    (void)state;
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    socklen_t len = sizeof(any);
    if (listener < 0 || bind(listener, (struct sockaddr *)&any, len) != 0) {
        skip(); /* no IPv6 */
    }
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &len), 0);
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = any.sin6_port;
    assert_int_equal(bind(peer, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(peer, (struct sockaddr *)&to, sizeof(to)), 0);
    client.link = AMB_LINK_STREAM;
    client.is_unix = false;
    client.fd = accept(listener, NULL, NULL);
    assert_true(client.fd >= 0);
    (void)amb_expected_rate(&client, 0, by);
    assert_string_equal(by, "unknown: lo does not tell its speed");
    /* It holds for a while: to list a thousand interfaces takes 40 ms. */
    struct amb_control_network *network = &control.networks[0];
    for (unsigned i = 0; i < AMB_CONTROL_NETWORKS; i++) {
        network = control.networks[i].interface[0] != '\0' ? &control.networks[i] : network;
    }
    network->rate = 125 * MB;
    network->until_ns = INT64_MAX;
    assert_int_equal(amb_expected_rate(&client, 0, by), 125 * MB);
    assert_string_equal(by, "the speed of lo");
    network->until_ns = 0;
    assert_int_equal(amb_expected_rate(&client, 0, by), 0);
    assert_string_equal(by, "unknown: lo does not tell its speed");
    (void)close(client.fd);
    (void)close(peer);
    (void)close(listener);
    client.fd = -1;
}

/* Once the suite and once the socket is the slower one; a ucx link of that client is not encrypted.
 */
static void encryption_is_a_part_of_what_a_stream_can_have(void **state)
{
    (void)state;
    struct tls_made made;
    struct amb_tls_context *server, *from;
    struct tls_two two;
    tls_made_ends(&made, "broker.example", &server, &from);
    tls_two_make(&two, server, from, &(struct amb_tls_wish){.name = "broker.example"});
    tls_two_shake(&two);
    client.tls = two.broker;
    client.link = AMB_LINK_STREAM;
    client.is_unix = true;
    control.rates.socket = 3000 * MB;
    uint64_t rate = amb_expected_rate(&client, 0, by);
    assert_in_range(rate, 1, 3000 * MB - 1);
    assert_non_null(strstr(by, "sockets and encryption"));
    assert_int_not_equal(control.rates.cipher[0], 0); /* measured once */
    control.rates.cipher[0] = 1500 * MB;
    assert_in_range(amb_expected_rate(&client, 0, by), 1000 * MB - 1, 1000 * MB);
    client.link = AMB_LINK_UCX;
    assert_int_equal(amb_expected_rate(&client, 0, by), 3000 * MB);
    assert_null(strstr(by, "encryption"));
    client.tls = NULL;
    tls_two_fini(&two);
    tls_made_ends_fini(&made, &server, &from);
}

static void two_ways_one_after_the_other(void **state)
{
    (void)state;
    assert_int_equal(amb_expected_both(0, 5), 0);
    assert_int_equal(amb_expected_both(5, 0), 0);
    assert_in_range(amb_expected_both(2000 * MB, 2000 * MB), 1000 * MB - 1, 1000 * MB + 1);
    assert_in_range(amb_expected_both(UINT64_MAX, 2000 * MB), 1999 * MB, 2000 * MB);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(this_machine_is_measured),
        T(a_ring_is_as_fast_as_memory_and_is_measured_once),
        T(a_local_stream_is_as_fast_as_sockets),
        T(encryption_is_a_part_of_what_a_stream_can_have),
        T(two_ways_one_after_the_other),
        T(ucx_says_its_own),
        T(nobody_knows_a_connection_that_is_gone),
        T(an_interface_is_found_whatever_the_listeners_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
