/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/client: silent clients, before and after they are let in, and the words that clients are
 * shown as.
 */
#include "tests/support/door/door_harness.h"
#include "tests/support/door/stepped_control.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const uint8_t ping_frame[] = {'A', 'M', 'B', 1, 3, 0, 0, 0, 0x82, 0x01, 0};

#define PEER_TIMEOUT_NS (2 * AMB_NS_PER_SEC) /* as in the options below */

/* Pings every 5 ms until the other one is ended. False: we stood still for so long ourselves that
 * the broker may have taken us for dead. */
static bool ping_until_ended(struct door_client *alive, const struct door_client *silent)
{
    int64_t pinged_ns = amb_clock_monotonic_ns();
    struct pollfd poller = {.fd = silent->fd, .events = POLLIN};
    while (poll(&poller, 1, 5) == 0) {
        int64_t now_ns = amb_clock_monotonic_ns();
        if (now_ns - pinged_ns > PEER_TIMEOUT_NS / 2) {
            return false;
        }
        pinged_ns = now_ns;
        door_send_ping(alive, 0);
        amb_control_free(door_expect(alive, AMB__CONTROL__CONTROL__BODY_PONG));
    }
    return true;
}

static void test_a_silent_client_is_expired_and_one_that_pings_is_not(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.peer_timeout=2s", "limits.heartbeat=20ms", NULL};
    struct door door;
    struct door_client silent, alive;
    bool is_fair = false;
    door_open(&door, options);
    for (int tries = 0; !is_fair && tries < 10; tries++) {
        door_login_unix(&door, &silent);
        door_login_unix(&door, &alive);
        is_fair = ping_until_ended(&alive, &silent);
        if (is_fair) {
            door_expect_error(&silent, 0, AMB_ELOST, "no heartbeat");
            door_expect_closed(&silent);
            door_send_ping(&alive, 0);
            amb_control_free(door_expect(&alive, AMB__CONTROL__CONTROL__BODY_PONG));
        }
        door_disconnect(&silent);
        door_disconnect(&alive);
    }
    door_close(&door);
    assert_true(is_fair);
}

static void test_a_handshake_has_a_deadline_in_every_state(void **state)
{
    (void)state;
    static const char *const options[] = {"server.handshake_timeout=300ms", NULL};
    struct door door;
    struct door_client silent, half, half_tcp;
    door_open(&door, options);
    int64_t begin_ns = amb_clock_monotonic_ns();
    door_connect_unix(&door, &silent);
    door_connect_unix(&door, &half);
    door_send_hello(&half, "");
    amb_control_free(door_expect(&half, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_connect_tcp(&door, &half_tcp);
    door_send_bytes(&half_tcp, ping_frame, 9);
    door_expect_closed(&silent);
    door_expect_closed(&half);
    door_expect_closed(&half_tcp);
    assert_true(amb_clock_monotonic_ns() - begin_ns < 10 * AMB_NS_PER_SEC);
    door_disconnect(&silent);
    door_disconnect(&half);
    door_disconnect(&half_tcp);
    door_close(&door);
}

static void test_names_are_shown_printable(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_connect_unix(&door, &client);
    Amb__Control__Hello hello;
    amb__control__hello__init(&hello);
    hello.version_min = hello.version_max = AMB_CONTROL_VERSION;
    hello.name = (char *)(uintptr_t) "evil\n\x1b[31m\"name\"\xff";
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_HELLO;
    message.hello = &hello;
    door_send(&client, &message);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_CHALLENGE));
    door_send_auth(&client, NULL);
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_WELCOME));
    char *json = door_admin(&client, "clients");
    assert_non_null(strstr(json, "evil??[31m\\\"name\\\"?"));
    free(json);
    door_disconnect(&client);
    door_close(&door);
}

/* Without threads: a hundred connections, of which one has a session. */
static void test_answers_find_their_client_by_its_number(void **state)
{
    (void)state;
    enum {
        CLIENTS = 100
    };
    struct amb_control *control = stepped_control();
    struct amb_client *clients[CLIENTS];
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = stepped_connect(true, &fds[i]);
    }
    assert_int_equal(control->by_id.count, CLIENTS);
    stepped_introduce(clients[7], fds[7]);
    assert_ptr_equal(amb_client_find(control, clients[7]->id), clients[7]);
    assert_null(amb_client_find(control, clients[8]->id)); /* It has no session. */
    uint64_t gone = clients[7]->id;
    for (unsigned i = 0; i < CLIENTS; i++) {
        stepped_leave(clients[i], fds[i]);
    }
    assert_null(amb_client_find(control, gone));
    assert_int_equal(control->by_id.count, 0);
}

/* Arrow by arrow, without a worker's answer: it could not make the session. */
static void test_a_life_is_counted_at_each_change(void **state)
{
    (void)state;
    int fd;
    struct amb_control *control = stepped_control();
    struct amb_client *client = stepped_connect(true, &fd);
    assert_int_equal(client->state, AMB_CLIENT_HELLO);
    assert_int_equal(control->half_open.clients, 1);
    amb_client_challenged(client);
    assert_int_equal(client->state, AMB_CLIENT_AUTH);
    assert_int_equal(control->half_open.clients, 1);
    assert_int_equal(amb_control_session_take(control, &client->session), AMB_OK);
    amb_client_opening(client);
    assert_int_equal(client->state, AMB_CLIENT_OPENING);
    assert_int_equal(control->half_open.clients, 0);
    assert_int_equal(control->opening_count, 1);
    assert_false(amb_client_opened(client, AMB_ENOMEM));
    assert_int_equal(control->opening_count, 0);
    assert_int_equal(amb_control_sessions(control), 0);
    amb_client_end(client, "it could not be made");
    assert_int_equal(client->state, AMB_CLIENT_ENDING);
    assert_int_equal(control->half_open.clients, 0);
    amb_client_bury(control);
    assert_int_equal(control->client_count, 0);
    (void)close(fd);
}

static void count_words(enum amb_log_level level, const char *line, void *arg)
{
    (void)level;
    *(unsigned *)arg += strstr(line, "its process cannot be asked about") != NULL;
}

/* It could be taken for one that has ended: both are served by copies. */
static void test_a_process_that_cannot_be_asked_about_is_told_once_and_counted(void **state)
{
    (void)state;
    struct rlimit files, none;
    struct amb_control *control = stepped_control();
    struct amb_client *clients[3];
    unsigned told = 0;
    int fds[3];
    if (!control->kernel_names_peers) {
        skip();
    }
    uint64_t before = control->stats->unknown_processes;
    assert_int_equal(before, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0;
    amb_log_set_sink(count_words, &told);
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = stepped_connect(true, &fds[i]);
        if (i < 2) {
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        }
        stepped_introduce(clients[i], fds[i]);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        assert_int_equal(clients[i]->knows_process, i == 2);
    }
    amb_log_set_sink(NULL, NULL);
    assert_int_equal(told, 1);
    assert_int_equal(control->stats->unknown_processes, 2);
    for (unsigned i = 0; i < 3; i++) {
        stepped_leave(clients[i], fds[i]);
    }
}

static void test_a_connection_that_is_a_party_alone_leaves_none(void **state)
{
    (void)state;
    struct amb_control *control = stepped_control();
    for (int is_seen = 0; is_seen < 2; is_seen++) {
        int fd;
        struct amb_client *client = stepped_connect(true, &fd);
        client->pid = is_seen == 1 ? getpid() : 0;
        size_t before = amb_map_count(control->parties.by_key);
        stepped_log_in(client, fd);
        assert_int_equal(amb_map_count(control->parties.by_key), before + 1);
        stepped_leave(client, fd);
        /* The next session of a process is charged for what this one has left: for a while it is
         * kept. */
        assert_int_equal(amb_map_count(control->parties.by_key), before + (size_t)is_seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_connection_that_is_a_party_alone_leaves_none),
        cmocka_unit_test(test_a_life_is_counted_at_each_change),
        cmocka_unit_test(test_a_process_that_cannot_be_asked_about_is_told_once_and_counted),
        cmocka_unit_test(test_answers_find_their_client_by_its_number),
        cmocka_unit_test(test_a_silent_client_is_expired_and_one_that_pings_is_not),
        cmocka_unit_test(test_a_handshake_has_a_deadline_in_every_state),
        cmocka_unit_test(test_names_are_shown_printable),
    };
    return cmocka_run_group_tests_name("broker/client", tests, NULL, NULL);
}
