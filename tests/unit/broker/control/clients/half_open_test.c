/* SPDX-License-Identifier: Apache-2.0 */
/* Half-open connections: which of them goes first. */
#include "broker/control/clients/half_open.h"

#include "broker/tls/handshaker.h"
#include "tests/support/door/stepped_control.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS 16u

static struct amb_client *clients[CLIENTS];
static int fds[CLIENTS];
static unsigned count;

static struct amb_client *come(bool is_unix)
{
    assert_true(count < CLIENTS);
    clients[count] = stepped_connect(is_unix, &fds[count]);
    return clients[count++];
}

static struct sockaddr_storage address(const char *host)
{
    struct sockaddr_storage from = {.ss_family = AF_INET};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&from;
    assert_int_equal(inet_pton(AF_INET, host, &v4->sin_addr), 1);
    return from;
}

static struct amb_client *come_from(const char *host)
{
    const struct sockaddr_storage from = address(host);
    struct amb_client *client = come(false);
    amb_half_open_place(client, &from);
    return client;
}

static void handshake_from(const char *host, struct amb_handshake_way *way)
{
    *way = (struct amb_handshake_way){.from = address(host)};
    amb_half_open_place_handshake(&stepped_control()->half_open, way);
}

static struct amb_client *come_as(uid_t uid)
{
    const struct sockaddr_storage from = {.ss_family = AF_UNIX};
    struct amb_client *client = come(true);
    client->uid = uid;
    amb_half_open_place(client, &from);
    return client;
}

/* Its refusal waits for its time. */
static void fail_login(struct amb_client *client)
{
    client->state = AMB_CLIENT_AUTH;
    client->refusal_ns = 1;
}

/* It is the next to go, and goes. */
static void expect_next(struct amb_client *client)
{
    struct amb_half_open_one one = amb_half_open_next(&stepped_control()->half_open);
    assert_ptr_equal(one.client, client);
    assert_null(one.way);
    amb_client_end(client, "it has to go");
}

/* The same of a handshake. To give it up is harmless twice. */
static void expect_next_handshake(struct amb_handshake_way *way)
{
    struct amb_half_open *half_open = &stepped_control()->half_open;
    struct amb_half_open_one one = amb_half_open_next(half_open);
    assert_ptr_equal(one.way, way);
    assert_null(one.client);
    amb_half_open_leave_handshake(half_open, way);
    amb_half_open_leave_handshake(half_open, way);
}

static void expect_nobody(void)
{
    struct amb_half_open_one one = amb_half_open_next(&stepped_control()->half_open);
    assert_null(one.client);
    assert_null(one.way);
}

static int leave(void **state)
{
    (void)state;
    for (unsigned i = 0; i < count; i++) {
        amb_client_end(clients[i], "the test is over");
        (void)close(fds[i]);
    }
    amb_client_bury(stepped_control());
    count = 0;
    assert_int_equal(amb_half_open_count(&stepped_control()->half_open), 0);
    expect_nobody();
    return 0;
}

static void test_the_largest_crowd_loses_its_oldest(void **state)
{
    (void)state;
    struct amb_client *other = come_from("192.0.2.1");
    struct amb_client *first = come_from("192.0.2.2");
    struct amb_client *second = come_from("192.0.2.2");
    expect_next(first);
    expect_next(other); /* One each: the oldest of all. */
    expect_next(second);
}

static void test_a_uid_is_a_crowd(void **state)
{
    (void)state;
    (void)come_as(1000);
    struct amb_client *first = come_as(1001);
    (void)come_as(1001);
    (void)come_from("192.0.2.1");
    expect_next(first);
}

static void test_silent_clients_go_first_unless_they_are_few(void **state)
{
    (void)state;
    struct amb_client *halfway = come_from("192.0.2.1");
    struct amb_client *silent[2] = {come_from("192.0.2.1"), come_from("192.0.2.1")};
    halfway->state = AMB_CLIENT_AUTH;
    expect_next(silent[0]);
    struct amb_client *more = come_from("192.0.2.1");
    more->state = AMB_CLIENT_AUTH;
    expect_next(halfway);
    expect_next(silent[1]);
    expect_next(more);
}

static void test_failed_logins_go_before_others_of_their_crowd(void **state)
{
    (void)state;
    struct amb_client *alone = come_from("192.0.2.1"), *crowd[4];
    for (unsigned i = 0; i < 4; i++) {
        crowd[i] = come_from("192.0.2.2");
    }
    fail_login(alone);
    fail_login(crowd[3]);
    fail_login(crowd[2]);
    expect_next(crowd[2]); /* Another crowd has most, and so alone may wait for its answer. */
    expect_next(crowd[3]);
    expect_next(crowd[0]);
    expect_next(alone);
    expect_next(crowd[1]);
}

/* An address cannot hide behind many others, by whatever doors it and they come. */
static void test_a_crowd_has_clients_and_handshakes_of_its_address(void **state)
{
    (void)state;
    static const char *const hosts[] = {"192.0.2.1", "192.0.2.2", "192.0.2.3"};
    struct amb_client *plain[3];
    struct amb_handshake_way ways[2], other;
    for (unsigned i = 0; i < 3; i++) {
        plain[i] = come_from(hosts[i]);
    }
    handshake_from("192.0.2.9", &ways[0]);
    handshake_from("192.0.2.9", &ways[1]);
    handshake_from("192.0.2.3", &other);
    assert_int_equal(amb_half_open_count(&stepped_control()->half_open), 6);
    expect_next(plain[2]); /* Two are of its address, and it is the oldest of such. */
    expect_next_handshake(&ways[0]);
    expect_next(plain[0]);
    expect_next(plain[1]);
    expect_next_handshake(&ways[1]);
    expect_next_handshake(&other);
}

static void test_a_client_is_as_old_as_its_handshake(void **state)
{
    (void)state;
    struct amb_handshake_way ways[2];
    handshake_from("192.0.2.1", &ways[0]);
    handshake_from("192.0.2.1", &ways[1]);
    struct amb_client *plain = come_from("192.0.2.1");
    struct amb_client *through = come(false);
    amb_half_open_take_over(through, &ways[0]);
    assert_null(ways[0].crowd);
    assert_int_equal(stepped_control()->half_open.handshakes, 1);
    expect_next(through);
    expect_next_handshake(&ways[1]);
    expect_next(plain);
}

/* Its place is free once all of a crowd have said who they are. */
static void test_clients_that_have_logged_in_do_not_count(void **state)
{
    (void)state;
    struct amb_client *other = come_from("192.0.2.1");
    for (unsigned i = 0; i < 2; i++) {
        struct amb_client *client = come_from("192.0.2.2");
        stepped_log_in(client, fds[count - 1]);
        assert_null(client->crowd);
    }
    assert_int_equal(stepped_control()->half_open.clients, 1);
    expect_next(other);
    expect_nobody();
    for (unsigned i = 1; i < count; i++) {
        stepped_leave(clients[i], fds[i]);
    }
    (void)close(fds[0]);
    count = 0; /* The first one was buried with them. */
}

#define T(test) cmocka_unit_test_teardown(test, leave)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_the_largest_crowd_loses_its_oldest),
        T(test_a_uid_is_a_crowd),
        T(test_silent_clients_go_first_unless_they_are_few),
        T(test_failed_logins_go_before_others_of_their_crowd),
        T(test_a_crowd_has_clients_and_handshakes_of_its_address),
        T(test_a_client_is_as_old_as_its_handshake),
        T(test_clients_that_have_logged_in_do_not_count),
    };
    return cmocka_run_group_tests_name("broker/half_open", tests, NULL, NULL);
}
