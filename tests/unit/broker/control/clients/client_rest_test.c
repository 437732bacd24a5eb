/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rests: clients of users who are past their quota of requests a second. The control thread and the
 * workers have their turns as the test says.
 */
#include "broker/control/clients/client_rest.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/clients/quotas.h"
#include "tests/support/quota.h"
#include "tests/unit/broker/control/clients/login_world.h"
#include "wire/base/clock.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define RATE 10u /* requests a second: one each 100 ms, and a burst of one */

/* Of a handle that is not open: each is refused, and costs the broker no memory. */
static const uint8_t request[] = {0x08, 1, 0x6a, 0};
static const uint8_t ping[] = {0x82, 0x01, 0};
static const uint8_t bye[] = {0x92, 0x01, 0};

static struct amb_client *client_of(uint32_t uid, int *fd)
{
    struct amb_client *client = connect_as(uid, fd);
    stepped_settle(client);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    amb_control_free(stepped_hear(*fd)); /* Challenge */
    amb_control_free(stepped_hear(*fd)); /* Welcome */
    assert_non_null(amb_client_account(client));
    quota_limit(amb_client_account(client), AMB_QUOTA_REQUESTS, RATE);
    return client;
}

static unsigned hear_all(int fd)
{
    unsigned count = 0;
    char byte;
    while (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
        amb_control_free(stepped_hear(fd));
        count++;
    }
    return count;
}

static void turn(struct amb_client *client)
{
    amb_client_rest_look(client->control);
    stepped_settle(client);
}

static void pass(int64_t ns)
{
    stepped_control()->now_ns += ns;
}

static int set_up(void **state)
{
    (void)state;
    pass(INT64_C(1000) * 1000 * AMB_NS_PER_MS); /* No bill of a former test is left. */
    use(ALICE BOB);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    use("");
    assert_true(amb_list_is_empty(&stepped_control()->resting));
    return 0;
}

static void test_requests_come_at_the_rate(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = client_of(1000, &fd);
    const struct amb_account *account = amb_client_account(client);
    for (unsigned i = 0; i < 30; i++) {
        stepped_say_body(fd, request, sizeof(request));
    }
    stepped_settle(client);
    assert_int_equal(hear_all(fd), 1); /* Then its bill is over in 50 ms. */
    assert_int_equal(client->paused, AMB_PAUSE_QUOTA);
    assert_int_equal(client->watched & EPOLLIN, 0);
    assert_int_equal(atomic_load(&account->refused[AMB_QUOTA_REQUESTS]), 1);
    turn(client);
    assert_int_equal(hear_all(fd), 0);
    for (unsigned i = 0; i < 1000 / 5; i++) {
        pass(5 * AMB_NS_PER_MS);
        turn(client);
    }
    assert_in_range(hear_all(fd), RATE - 1, RATE + 1);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    pass(1000 * AMB_NS_PER_MS * 1000);
    stepped_leave(client, fd);
}

static void test_sessions_of_a_user_share_the_rate(void **state)
{
    (void)state;
    int fds[2], other_fd;
    struct amb_client *clients[2] = {client_of(1000, &fds[0]), client_of(1000, &fds[1])};
    struct amb_client *other = client_of(1001, &other_fd);
    unsigned heard[2] = {0, 0};
    for (unsigned i = 0; i < 60; i++) {
        stepped_say_body(fds[0], request, sizeof(request));
        stepped_say_body(fds[1], request, sizeof(request));
    }
    for (unsigned i = 0; i < 2000 / 5; i++) {
        turn(clients[0]);
        turn(clients[1]);
        pass(5 * AMB_NS_PER_MS);
    }
    for (unsigned i = 0; i < 2; i++) {
        heard[i] = hear_all(fds[i]);
        assert_in_range(heard[i], RATE - 3, RATE + 3); /* each has its turn */
    }
    assert_in_range(heard[0] + heard[1], 2 * RATE - 1, 2 * RATE + 2);
    stepped_say_body(other_fd, request, sizeof(request));
    stepped_settle(other);
    assert_int_equal(hear_all(other_fd), 1);
    stepped_leave(clients[0], fds[0]);
    stepped_leave(clients[1], fds[1]);
    stepped_leave(other, other_fd);
}

static void test_the_heartbeat_is_free_and_a_flood_is_not(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = client_of(1000, &fd);
    int64_t heartbeat_ns = client->control->config->limits.heartbeat_ns;
    const struct amb_account *account = amb_client_account(client);
    uint64_t before = account->passed[AMB_QUOTA_REQUESTS];
    for (unsigned i = 0; i < 20; i++) {
        pass(heartbeat_ns);
        stepped_say_body(fd, ping, sizeof(ping));
        turn(client);
    }
    assert_int_equal(hear_all(fd), 20);
    assert_int_equal(account->passed[AMB_QUOTA_REQUESTS], before);
    for (unsigned i = 0; i < 20; i++) {
        stepped_say_body(fd, ping, sizeof(ping));
    }
    turn(client);
    assert_int_equal(client->paused, AMB_PAUSE_QUOTA);
    assert_int_equal(account->passed[AMB_QUOTA_REQUESTS], before + 1);
    stepped_leave(client, fd);
}

static void test_one_that_rests_hears_that_the_broker_lives(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = client_of(1000, &fd);
    int64_t timeout_ns = client->peer_timeout_ns;
    for (unsigned i = 0; i < 3; i++) {
        stepped_say_body(fd, request, sizeof(request));
    }
    stepped_settle(client);
    assert_int_equal(hear_all(fd), 1);
    for (unsigned i = 0; i < 8; i++) { /* It is not read meanwhile: nothing else is looked at. */
        pass(timeout_ns / 4);
        amb_client_rest_tell(client);
        amb_client_tick(client, client->control->now_ns);
        assert_int_equal(client->state, AMB_CLIENT_LIVE);
        Amb__Control__Control *message = stepped_hear(fd);
        assert_int_equal(message->body_case, AMB__CONTROL__CONTROL__BODY_PONG);
        amb_control_free(message);
    }
    stepped_leave(client, fd);
}

static void test_one_that_leaves_while_it_rests_is_heard(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = client_of(1000, &fd);
    for (unsigned i = 0; i < 60; i++) {
        stepped_say_body(fd, request, sizeof(request));
    }
    stepped_say_body(fd, bye, sizeof(bye));
    stepped_settle(client);
    assert_int_equal(client->paused, AMB_PAUSE_QUOTA);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (unsigned i = 0; i < 100 && client->state != AMB_CLIENT_ENDING; i++) {
        client->watch.fn(&client->watch, EPOLLHUP);
    }
    assert_int_equal(client->state, AMB_CLIENT_ENDING);
    assert_true(client->said_bye);
    assert_int_equal(hear_all(fd), 1); /* No request was carried out behind the first. */
    stepped_leave(client, fd);
}

static void test_without_a_limit_nobody_rests(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = client_of(1000, &fd);
    quota_limit(amb_client_account(client), AMB_QUOTA_REQUESTS, AMB_QUOTA_NONE);
    for (unsigned i = 0; i < 30; i++) {
        stepped_say_body(fd, request, sizeof(request));
    }
    stepped_settle(client);
    assert_int_equal(hear_all(fd), 30);
    assert_int_equal(client->paused, 0);
    stepped_leave(client, fd);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_requests_come_at_the_rate),
        T(test_sessions_of_a_user_share_the_rate),
        T(test_the_heartbeat_is_free_and_a_flood_is_not),
        T(test_one_that_rests_hears_that_the_broker_lives),
        T(test_one_that_leaves_while_it_rests_is_heard),
        T(test_without_a_limit_nobody_rests),
    };
    return cmocka_run_group_tests_name("broker/control/clients, rests", tests, NULL, NULL);
}
