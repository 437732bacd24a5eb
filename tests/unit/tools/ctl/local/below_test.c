/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under test: tools/ctl/local/below, in a child whose descendants do all they can to be forgotten.
 * Each holds the end of a pipe that nobody else has, so the pipe's end is theirs.
 */
#include "tools/ctl/local/below.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define LIMIT_NS INT64_C(5000000000)

/* Says that it is there, and stays. */
static void stay(int fd)
{
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)!write(fd, "x", 1);
    for (;;) {
        (void)pause();
    }
}

/* A child, its child in a session of its own whose parent ends, and a grandchild. */
static void start_all(int fd)
{
    if (fork() == 0) {
        if (fork() == 0) {
            stay(fd);
        }
        stay(fd);
    }
    if (fork() == 0) {
        (void)setsid();
        if (fork() == 0) {
            stay(fd);
        }
        _exit(0);
    }
}

static bool await_bytes(int fd, unsigned count)
{
    char byte;
    while (count > 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        if (poll(&pfd, 1, PATIENCE_MS) != 1 || read(fd, &byte, 1) != 1) {
            return false;
        }
        count--;
    }
    return true;
}

/* 0, or the number of the check that failed. */
static int end_all(int *fds)
{
    amb_below_adopt();
    start_all(fds[1]);
    (void)close(fds[1]);
    if (!await_bytes(fds[0], 3)) {
        return 1;
    }
    if (!amb_below_end(NULL, LIMIT_NS)) {
        return 2;
    }
    char byte;
    struct pollfd pfd = {.fd = fds[0], .events = POLLIN};
    if (poll(&pfd, 1, 0) != 1 || read(fds[0], &byte, 1) != 0) {
        return 3; /* Somebody still holds the pipe. */
    }
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : 4;
}

/* The spared one lives on, and the other's name is no reason to miss it. */
static int spare_one(int *fds)
{
    amb_below_adopt();
    struct amb_below_spared spared;
    pid_t first = fork();
    if (first == 0) {
        stay(fds[1]);
    }
    if (!amb_below_look(&spared) || spared.count != 1 || spared.pids[0] != first) {
        return 6;
    }
    if (fork() == 0) {
        int comm = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
        (void)!write(comm, ") Z 1 (", 7);
        stay(fds[1]);
    }
    (void)close(fds[1]);
    if (!await_bytes(fds[0], 2)) {
        return 1;
    }
    if (amb_below_kill(&spared) != 1) {
        return 2;
    }
    if (!amb_below_end(&spared, LIMIT_NS) || spared.count != 1) {
        return 3;
    }
    int status;
    if (amb_below_kill(&spared) != 0 || waitpid(first, &status, WNOHANG) != 0) {
        return 4;
    }
    return amb_below_end(NULL, LIMIT_NS) && amb_below_end(NULL, 0) ? 0 : 5;
}

/* A spared one that has ended leaves the list, since its number may be another's then. */
static int spare_one_that_ends(int *fds)
{
    struct amb_below_spared spared;
    amb_below_adopt();
    pid_t first = fork();
    if (first == 0) {
        stay(fds[1]);
    }
    (void)close(fds[1]);
    if (!await_bytes(fds[0], 1) || !amb_below_look(&spared) || kill(first, SIGKILL) != 0) {
        return 1;
    }
    siginfo_t info;
    if (waitid(P_PID, (id_t)first, &info, WEXITED | WNOWAIT) != 0) {
        return 2;
    }
    return amb_below_end(&spared, LIMIT_NS) && spared.count == 0 ? 0 : 3;
}

/* Its threads go on when the first one has ended. Then /proc calls the process a zombie. */
static void *stay_on(void *arg)
{
    char state = 'R';
    while (state != 'Z') {
        char text[512] = "";
        int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
        (void)!read(fd, text, sizeof(text) - 1);
        (void)close(fd);
        const char *end = strrchr(text, ')');
        state = end != NULL ? end[2] : state;
        (void)sched_yield();
    }
    stay(*(int *)arg);
    return NULL;
}

static int end_one_without_its_first_thread(int *fds)
{
    amb_below_adopt();
    if (fork() == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, stay_on, &fds[1]) != 0) {
            _exit(1);
        }
        (void)syscall(SYS_exit, 0); /* This thread alone. */
    }
    (void)close(fds[1]);
    if (!await_bytes(fds[0], 1)) {
        return 1;
    }
    return amb_below_end(NULL, LIMIT_NS) ? 0 : 2;
}

/* More than the list holds. */
static int look_at_many(int *fds)
{
    struct amb_below_spared spared;
    for (unsigned i = 0; i < AMB_BELOW_SPARED_MAX; i++) {
        if (fork() == 0) {
            stay(fds[1]);
        }
    }
    if (!amb_below_look(&spared) || spared.count != AMB_BELOW_SPARED_MAX) {
        return 1;
    }
    if (fork() == 0) {
        stay(fds[1]);
    }
    if (amb_below_look(&spared)) {
        return 2;
    }
    return amb_below_end(NULL, LIMIT_NS) ? 0 : 3;
}

static int in_child(int (*body)(int *))
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(body(fds));
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_all_below_are_ended_also_orphans_of_other_sessions(void **state)
{
    (void)state;
    assert_int_equal(in_child(end_all), 0);
}

static void test_one_may_be_spared(void **state)
{
    (void)state;
    assert_int_equal(in_child(spare_one), 0);
    assert_int_equal(in_child(spare_one_that_ends), 0);
    assert_int_equal(in_child(look_at_many), 0);
}

static void test_process_without_its_first_thread_is_ended(void **state)
{
    (void)state;
    assert_int_equal(in_child(end_one_without_its_first_thread), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_below_are_ended_also_orphans_of_other_sessions),
        cmocka_unit_test(test_one_may_be_spared),
        cmocka_unit_test(test_process_without_its_first_thread_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
