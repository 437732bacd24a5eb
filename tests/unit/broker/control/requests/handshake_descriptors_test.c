/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake: the descriptors that a session costs the broker, while it lives and at its end.
 */
#include "tests/support/door/door_harness.h"
#include "wire/base/clock.h"
#include "wire/link/ring/ring_state.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_PIDFD 77 /* SO_PEERPIDFD */

static _Atomic int pidfd_errno; /* the kernel's answer in place of a pidfd; 0: it gives one */
static _Atomic unsigned pidfd_questions;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    bool is_question = level == SOL_SOCKET && name == PEER_PIDFD;
    pidfd_questions += is_question;
    if (is_question && pidfd_errno != 0) {
        errno = pidfd_errno;
        return -1;
    }
    return __real_getsockopt(fd, level, name, value, len);
}

/* Descriptors that are on their way to a client are closed when they are sent. */
static unsigned settled_fds(void)
{
    unsigned before = 0, now = door_count_fds();
    while (now != before) {
        before = now;
        (void)usleep(50000);
        now = door_count_fds();
    }
    return now;
}

/* The control connection, and the ring's bell or the stream. */
static void test_a_session_costs_the_broker_two_descriptors(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, data, first;
    door_open(&door, NULL);
    door_login_unix(&door, &first); /* The broker is warm. */
    unsigned before = settled_fds();
    door_login_unix(&door, &client);
    door_await_fds(before + 1 + client.fd_count + 2);
    door_disconnect(&client);
    door_await_fds(before);
    struct door_session session;
    door_connect_tcp(&door, &client);
    door_login(&client, "stream", &session);
    door_connect_tcp(&door, &data);
    Amb__Control__Attach attach;
    amb__control__attach__init(&attach);
    attach.session = session.session;
    attach.generation = session.generation;
    attach.secret = session.secret;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = 1;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ATTACH;
    message.attach = &attach;
    door_send(&data, &message);
    door_expect_ok(&data, 1);
    door_await_fds(before + 2 + 2);
    door_disconnect(&data);
    door_disconnect(&client);
    door_await_fds(before);
    door_disconnect(&first);
    door_close(&door);
}

static void say_bye(struct door_client *client)
{
    Amb__Control__Bye bye;
    amb__control__bye__init(&bye);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
    message.bye = &bye;
    door_send(client, &message);
    door_expect_closed(client);
}

/* Once at Auth, whether it lives; and once more where a session ends without a word. */
static void test_a_process_is_asked_for_at_both_ends_of_its_session(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, first;
    door_open(&door, NULL);
    door_login_unix(&door, &first);
    unsigned before = settled_fds(), asked = pidfd_questions;
    door_login_unix(&door, &client);
    assert_int_equal(pidfd_questions, asked + 1);
    door_disconnect(&client);
    door_await_fds(before);
    assert_int_equal(pidfd_questions, asked + 2);
    door_login_unix(&door, &client); /* A goodbye leaves nothing to ask for. */
    say_bye(&client);
    door_disconnect(&client);
    door_await_fds(before);
    assert_int_equal(pidfd_questions, asked + 3);
    door_disconnect(&first);
    door_close(&door);
}

/* Of processes that have something in place: places for sessions are few. */
struct crowded {
    struct door door;
    struct door_client first, client;
    struct ring_control *control; /* the client's */
};

static void await_questions(unsigned count)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + DOOR_DEADLINE_MS * AMB_NS_PER_MS;
    while (pidfd_questions < count) {
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
        (void)usleep(1000);
    }
}

/* A session whose ring has something unread ends without a word, and its process cannot be asked
 * for. */
static void end_with_something_unread(struct crowded *c)
{
    struct door_session session;
    door_login(&c->client, "ring", &session);
    assert_int_equal(session.may_map, 1);
    c->control = mmap(NULL, sizeof(*c->control), PROT_READ | PROT_WRITE, MAP_SHARED,
                      c->client.fds[0], 0); /* From the broker. */
    assert_true(c->control != MAP_FAILED);
    atomic_store(&c->control->head, 64); /* A lie: as much as there may be is unread. */
    unsigned asked = pidfd_questions;
    pidfd_errno = EMFILE;
    door_disconnect(&c->client);
    await_questions(asked + 3); /* It is asked again and again. */
}

static void crowded_open(struct crowded *c)
{
    static const char *const options[] = {"server.max_connections=2", NULL};
    door_open(&c->door, options);
    door_login_unix(&c->door, &c->first);
}

/* A number of the status; key: with its quotes and colon. */
static unsigned status_of(struct door_client *client, const char *key)
{
    char *json = door_admin(client, "status");
    const char *at = strstr(json, key);
    assert_non_null(at);
    unsigned value = (unsigned)strtoul(at + strlen(key), NULL, 10);
    free(json);
    return value;
}

static unsigned count_sessions(struct crowded *c)
{
    return status_of(&c->first, "\"clients\":");
}

static void await_sessions(struct crowded *c, unsigned count)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + DOOR_DEADLINE_MS * AMB_NS_PER_MS;
    while (count_sessions(c) != count) {
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
        (void)usleep(1000);
    }
}

static void crowded_close(struct crowded *c)
{
    door_login_unix(&c->door, &c->client); /* The place is free. */
    door_disconnect(&c->client);
    assert_int_equal(munmap(c->control, sizeof(*c->control)), 0);
    door_disconnect(&c->first);
    door_close(&c->door);
}

/* The broker has no descriptor left for the question; the process was waited for by then. */
static void test_what_a_process_held_comes_back_when_it_is_found_gone(void **state)
{
    (void)state;
    struct crowded c;
    crowded_open(&c);
    door_connect_unix(&c.door, &c.client);
    end_with_something_unread(&c);
    assert_int_equal(count_sessions(&c), 2);
    pidfd_errno = ESRCH;
    await_sessions(&c, 1);
    pidfd_errno = 0;
    crowded_close(&c);
}

/* The same, and it lives on for a while. */
static void test_what_a_process_held_comes_back_at_its_end(void **state)
{
    (void)state;
    struct crowded c;
    crowded_open(&c);
    pid_t pid = door_connect_as_another(&c.door, &c.client);
    end_with_something_unread(&c);
    unsigned fds = settled_fds(), asked = pidfd_questions;
    pidfd_errno = 0;
    await_questions(asked + 1);
    assert_int_equal(settled_fds(), fds); /* A pidfd in place of its connection. */
    asked = pidfd_questions;
    (void)usleep(600000); /* Two ticks: it is known now, and nobody asks any more. */
    assert_int_equal(pidfd_questions, asked);
    assert_int_equal(count_sessions(&c), 2);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    await_sessions(&c, 1);
    crowded_close(&c);
}

/* It connects, hands the connection on and is gone: nobody would tell of the end of the one that
 * reads. */
static void test_a_process_that_is_gone_at_auth_has_nothing_in_place(void **state)
{
    (void)state;
    struct crowded c;
    struct door_session session;
    crowded_open(&c);
    unsigned before = settled_fds();
    for (unsigned i = 0; i < 2; i++) {
        pid_t pid = door_connect_as_another(&c.door, &c.client);
        pidfd_errno = i == 0 ? 0 : EMFILE; /* ... or it cannot be asked for. */
        if (i == 0) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        }
        door_login(&c.client, "ring", &session);
        assert_int_equal(session.may_map, 0);
        assert_int_equal(session.lease_bytes, 0);
        pidfd_errno = 0;
        c.control =
            mmap(NULL, sizeof(*c.control), PROT_READ | PROT_WRITE, MAP_SHARED, c.client.fds[0], 0);
        assert_true(c.control != MAP_FAILED);
        atomic_store(&c.control->head, 64); /* Nor has it anything unread that is kept. */
        door_disconnect(&c.client);
        await_sessions(&c, 1);
        door_await_fds(before);
        if (i == 0) {
            assert_int_equal(munmap(c.control, sizeof(*c.control)), 0);
        } else {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        }
    }
    crowded_close(&c);
}

/* Kernels before Linux 6.5 know no SO_PEERPIDFD: there is the number of the process alone. */
static void test_a_process_that_is_gone_is_not_unknown(void **state)
{
    (void)state;
    struct door door;
    struct door_client first, client;
    struct door_session session;
    pidfd_errno = ENOPROTOOPT;
    door_open(&door, NULL);
    door_login_unix(&door, &first);
    for (unsigned i = 0; i < 2; i++) {
        bool is_gone = i == 0;
        pid_t pid = door_connect_as_another(&door, &client);
        if (is_gone) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        }
        door_login(&client, "ring", &session);
        assert_int_equal(session.may_map, !is_gone);
        assert_int_equal(status_of(&first, "\"unknown_processes\":"), 0);
        door_disconnect(&client);
        if (!is_gone) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        }
    }
    door_disconnect(&first);
    door_close(&door);
    pidfd_errno = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_that_is_gone_is_not_unknown),
        cmocka_unit_test(test_a_session_costs_the_broker_two_descriptors),
        cmocka_unit_test(test_a_process_is_asked_for_at_both_ends_of_its_session),
        cmocka_unit_test(test_what_a_process_held_comes_back_when_it_is_found_gone),
        cmocka_unit_test(test_what_a_process_held_comes_back_at_its_end),
        cmocka_unit_test(test_a_process_that_is_gone_at_auth_has_nothing_in_place),
    };
    return cmocka_run_group_tests_name("broker/handshake_descriptors", tests, NULL, NULL);
}
