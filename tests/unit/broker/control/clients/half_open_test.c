/* SPDX-License-Identifier: Apache-2.0 */
/* Half-open connections: which of them goes first. */
#include "broker/control/clients/half_open.h"

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

static struct amb_client *come_from(const char *host)
{
    struct sockaddr_storage from = {.ss_family = AF_INET};
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&from;
    struct amb_client *client = come(false);
    assert_int_equal(inet_pton(AF_INET, host, &v4->sin_addr), 1);
    assert_true(amb_half_open_place(client, &from));
    return client;
}

static struct amb_client *come_as(uid_t uid)
{
    const struct sockaddr_storage from = {.ss_family = AF_UNIX};
    struct amb_client *client = come(true);
    client->uid = uid;
    assert_true(amb_half_open_place(client, &from));
    return client;
}

/* As the door has it. */
static void has_failed(struct amb_client *client)
{
    client->state = AMB_CLIENT_AUTH;
    amb_half_open_refuse(client);
    client->refusal_ns = 1;
}

static void expect_next(struct amb_client *client)
{
    assert_ptr_equal(amb_half_open_next(&stepped_control()->half_open), client);
    amb_client_end(client, "it has to go");
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
    const struct amb_half_open *half_open = &stepped_control()->half_open;
    assert_int_equal(half_open->count, 0);
    assert_false(amb_half_open_has_refused(half_open));
    assert_null(amb_half_open_next(half_open));
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

static void test_silent_ones_go_first_unless_they_are_few(void **state)
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

static void test_those_that_have_failed_go_before_any_crowd(void **state)
{
    (void)state;
    struct amb_client *crowd[3], *alone = come_from("192.0.2.1");
    for (unsigned i = 0; i < 3; i++) {
        crowd[i] = come_from("192.0.2.2");
    }
    struct amb_client *failed[2] = {come_from("192.0.2.3"), come_from("192.0.2.3")};
    has_failed(failed[1]);
    has_failed(alone);
    has_failed(failed[0]);
    assert_true(amb_half_open_has_refused(&stepped_control()->half_open));
    expect_next(failed[1]); /* Its address has most of them, and it failed first. */
    expect_next(alone);
    expect_next(failed[0]);
    assert_false(amb_half_open_has_refused(&stepped_control()->half_open));
    expect_next(crowd[0]);
}

/* A crowd is nobody's once all of it has said who it is. */
static void test_those_that_have_logged_in_do_not_count(void **state)
{
    (void)state;
    struct amb_client *other = come_from("192.0.2.1");
    for (unsigned i = 0; i < 2; i++) {
        struct amb_client *client = come_from("192.0.2.2");
        stepped_log_in(client, fds[count - 1]);
        assert_null(client->crowd);
    }
    assert_int_equal(stepped_control()->half_open.count, 1);
    expect_next(other);
    assert_null(amb_half_open_next(&stepped_control()->half_open));
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
        T(test_silent_ones_go_first_unless_they_are_few),
        T(test_those_that_have_failed_go_before_any_crowd),
        T(test_those_that_have_logged_in_do_not_count),
    };
    return cmocka_run_group_tests_name("broker/half_open", tests, NULL, NULL);
}
