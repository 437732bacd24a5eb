/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/handshake: the descriptors that a session costs the broker, while it lives and at its end.
 */
#include "tests/support/door/door_harness.h"

#include <errno.h>
#include <sys/socket.h>
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

/* The broker has no descriptor left for the question, or the process was waited for by then. */
static void test_a_process_is_asked_for_at_the_end_of_its_session(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, first;
    door_open(&door, NULL);
    door_login_unix(&door, &first);
    unsigned before = settled_fds(), asked = pidfd_questions;
    door_login_unix(&door, &client);
    assert_int_equal(pidfd_questions, asked);
    door_disconnect(&client);
    door_await_fds(before);
    assert_int_equal(pidfd_questions, asked + 1);
    door_login_unix(&door, &client);
    pidfd_errno = EMFILE;
    door_disconnect(&client);
    while (pidfd_questions == asked + 1) {
        (void)usleep(1000);
    }
    door_login_unix(&door, &client); /* Others are served meanwhile. */
    pidfd_errno = ESRCH;
    door_disconnect(&client);
    door_await_fds(before);
    pidfd_errno = 0;
    asked = pidfd_questions;
    door_login_unix(&door, &client); /* A goodbye leaves nothing to ask for. */
    Amb__Control__Bye bye;
    amb__control__bye__init(&bye);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
    message.bye = &bye;
    door_send(&client, &message);
    door_expect_closed(&client);
    door_disconnect(&client);
    door_await_fds(before);
    assert_int_equal(pidfd_questions, asked);
    door_disconnect(&first);
    door_close(&door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_costs_the_broker_two_descriptors),
        cmocka_unit_test(test_a_process_is_asked_for_at_the_end_of_its_session),
    };
    return cmocka_run_group_tests_name("broker/handshake_descriptors", tests, NULL, NULL);
}
