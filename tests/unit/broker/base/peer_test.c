/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/peer: the process at the other end of a connection, and the test of a pidfd.
 */
#include "broker/base/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t wait_to_be_ended(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    return pid;
}

static void test_the_pidfd_tells_of_the_end(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    int own = amb_peer_pidfd(pair[0], getpid());
    assert_true(own >= 0);
    assert_true(amb_peer_is_pidfd(own));
    struct pollfd poller = {.fd = own, .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 0), 0);
    (void)close(own);
    /* Without a Unix connection the number is all there is. */
    pid_t pid = wait_to_be_ended();
    int other = amb_peer_pidfd(-1, pid);
    assert_true(other >= 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    poller.fd = other;
    assert_int_equal(poll(&poller, 1, 10000), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(other);
    assert_int_equal(amb_peer_pidfd(-1, 0), -1);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_a_connection_outlives_its_process(void **state)
{
    (void)state;
    int pair[2], passed[2], ready[2];
    if (!amb_peer_kernel_tells()) {
        skip();
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(amb_peer_state(pair[0]), AMB_PEER_LIVES);
    assert_int_equal(pipe(ready), 0);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(address.sun_family); /* The kernel finds a name. */
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, len), 0);
    len = sizeof(address);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(listener, 1), 0);
    passed[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* A child of ours connects it. */
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(ready[1], "x", connect(passed[1], (void *)&address, len) == 0 ? 1 : 0);
        for (;;) {
            (void)pause();
        }
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    passed[0] = accept(listener, NULL, NULL);
    assert_int_equal(amb_peer_state(passed[0]), AMB_PEER_LIVES);
    assert_int_equal(kill(pid, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(amb_peer_state(passed[0]), AMB_PEER_GONE); /* It has ended, */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(amb_peer_state(passed[0]), AMB_PEER_GONE); /* ... and was waited for. */
    assert_int_equal(amb_peer_state(-1), AMB_PEER_UNKNOWN);
    const int all[] = {pair[0], pair[1], passed[0], passed[1], ready[0], ready[1], listener};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(close(all[i]), 0);
    }
}

static void test_a_process_that_cannot_be_asked_about_is_neither_gone_nor_there(void **state)
{
    (void)state;
    int pair[2];
    struct rlimit files, none;
    if (!amb_peer_kernel_tells()) {
        skip();
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0; /* No further descriptor, whatever its number. */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum amb_peer_state without = amb_peer_state(pair[0]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(without, AMB_PEER_UNKNOWN);
    assert_int_equal(amb_peer_state(pair[0]), AMB_PEER_LIVES);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_nothing_else_is_taken_for_a_pidfd(void **state)
{
    (void)state;
    int bell = eventfd(0, EFD_CLOEXEC), ends[2];
    assert_int_equal(pipe(ends), 0);
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    assert_true(amb_peer_is_pidfd(pidfd));
    assert_false(amb_peer_is_pidfd(bell));
    assert_false(amb_peer_is_pidfd(ends[0]));
    assert_false(amb_peer_is_pidfd(-1));
    (void)close(pidfd);
    assert_false(amb_peer_is_pidfd(pidfd));
    (void)close(bell);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_a_child_that_has_ended_is_a_pidfd_still(void **state)
{
    (void)state;
    pid_t pid = wait_to_be_ended();
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    struct pollfd poller = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 10000), 1);
    assert_true(amb_peer_is_pidfd(pidfd));
    assert_int_equal(waitpid(pid, NULL, 0), pid); /* The question has not taken its status. */
    assert_true(amb_peer_is_pidfd(pidfd));
    (void)close(pidfd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_pidfd_tells_of_the_end),
        cmocka_unit_test(test_a_connection_outlives_its_process),
        cmocka_unit_test(test_a_process_that_cannot_be_asked_about_is_neither_gone_nor_there),
        cmocka_unit_test(test_nothing_else_is_taken_for_a_pidfd),
        cmocka_unit_test(test_a_child_that_has_ended_is_a_pidfd_still),
    };
    return cmocka_run_group_tests_name("broker/peer", tests, NULL, NULL);
}
