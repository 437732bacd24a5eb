/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake: clients whose sessions are being made. The control thread and the workers have
 * their turns as the test says.
 */
#include "broker/config/config.h"
#include "broker/control/door.h"
#include "broker/worker/worker.h"
#include "tests/support/door/stepped_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A client that waits for its worker. */
static struct amb_client *opening_client(int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    stepped_say_body(*fd, stepped_hello, sizeof(stepped_hello));
    stepped_say_body(*fd, stepped_auth, sizeof(stepped_auth));
    stepped_control_turn(client);
    assert_int_equal(client->state, AMB_CLIENT_OPENING);
    return client;
}

static void test_no_deadline_runs_while_the_broker_is_waited_for(void **state)
{
    (void)state;
    int fd;
    struct amb_control *control = stepped_control();
    struct amb_client *client = opening_client(&fd);
    assert_int_equal(control->half_open.clients, 0); /* It has said who it is. */
    assert_int_equal(control->opening_count, 1);
    int64_t late_ns = client->deadline_ns + control->config->limits.peer_timeout_ns;
    amb_client_tick(client, late_ns);
    assert_int_equal(client->state, AMB_CLIENT_OPENING);
    control->now_ns = late_ns;
    (void)stepped_workers_turn();
    stepped_control_turn(client);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    assert_int_equal(control->opening_count, 0);
    amb_client_tick(client, late_ns + 1); /* Its heartbeats begin now. */
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    stepped_leave(client, fd);
}

static void test_a_session_is_being_made_until_its_worker_has_answered(void **state)
{
    (void)state;
    int fd;
    struct amb_control *control = stepped_control();
    struct amb_client *client = opening_client(&fd);
    amb_client_end(client, "it has gone meanwhile");
    assert_int_equal(control->half_open.clients, 0);
    assert_int_equal(control->opening_count, 1); /* Its ring costs as much. */
    stepped_leave(client, fd);
    assert_int_equal(control->opening_count, 0);
}

/* Its last words may be on their way to another worker still: they come first. */
static void test_a_session_opens_when_its_clients_former_one_is_heard(void **state)
{
    (void)state;
    int fd, next_fd;
    struct amb_control *control = stepped_control();
    struct amb_client *client = opening_client(&fd);
    stepped_settle(client);
    struct amb_client *next = stepped_connect(true, &next_fd);
    stepped_say_body(next_fd, stepped_hello, sizeof(stepped_hello));
    stepped_say_auth_after(next_fd, client);
    for (unsigned i = 0; i < 10; i++) { /* The former session's worker has no turn. */
        stepped_control_turn(next);
        (void)amb_shard_turn(control->shards[next->session.shard], control->now_ns,
                             control->now_ns);
    }
    assert_int_not_equal(next->session.shard, client->session.shard);
    assert_int_equal(client->state, AMB_CLIENT_ENDING);
    assert_int_equal(next->state, AMB_CLIENT_OPENING);
    stepped_settle(next);
    assert_int_equal(next->state, AMB_CLIENT_LIVE);
    (void)close(fd);
    stepped_leave(next, next_fd);
}

static int knock(const struct amb_listener *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(listener->url.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void test_the_door_pauses_while_many_sessions_are_being_made(void **state)
{
    (void)state;
    struct amb_control *control = stepped_control();
    struct amb_listener *listener = &control->listeners[0];
    uint32_t before = control->client_count;
    int fd = knock(listener);
    control->opening_count = AMB_OPENING_MAX;
    listener->watch.fn(&listener->watch, EPOLLIN);
    assert_int_equal(control->client_count, before);
    assert_true(listener->is_paused);
    control->opening_count = 0;
    amb_door_resume(control);
    assert_false(listener->is_paused);
    listener->watch.fn(&listener->watch, EPOLLIN);
    assert_int_equal(control->client_count, before + 1);
    struct amb_client *client = AMB_CONTAINER_OF(control->clients.prev, struct amb_client, node);
    stepped_leave(client, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_deadline_runs_while_the_broker_is_waited_for),
        cmocka_unit_test(test_a_session_is_being_made_until_its_worker_has_answered),
        cmocka_unit_test(test_a_session_opens_when_its_clients_former_one_is_heard),
        cmocka_unit_test(test_the_door_pauses_while_many_sessions_are_being_made),
    };
    return cmocka_run_group_tests_name("broker/handshake, races", tests, NULL, NULL);
}
