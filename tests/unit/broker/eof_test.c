/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a descriptor, as amb_eof tells it. */
#include "broker/eof.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void on_end(void *arg)
{
    sem_t *ends = arg;
    assert_int_equal(sem_post(ends), 0);
}

static int count(sem_t *ends)
{
    int value = 0;
    assert_int_equal(sem_getvalue(ends, &value), 0);
    return value;
}

static void begin(struct amb_eof *eof, sem_t *ends, int fd)
{
    assert_int_equal(sem_init(ends, 0, 0), 0);
    assert_int_equal(amb_eof_start(eof, fd, on_end, ends), AMB_OK);
}

/* The thread has read all that was written. */
static void await_empty(int fd)
{
    int left = 1;
    while (left != 0) {
        (void)sched_yield();
        assert_int_equal(ioctl(fd, FIONREAD, &left), 0);
    }
}

static void test_the_end_of_a_pipe_is_told_once(void **state)
{
    (void)state;
    int pipe_fds[2];
    struct amb_eof eof;
    sem_t ends;
    assert_int_equal(pipe(pipe_fds), 0);
    begin(&eof, &ends, pipe_fds[0]);
    assert_int_equal(close(pipe_fds[1]), 0);
    assert_int_equal(sem_wait(&ends), 0);
    amb_eof_stop(&eof);
    assert_int_equal(count(&ends), 0);
    assert_int_not_equal(fcntl(pipe_fds[0], F_GETFD), -1); /* still the caller's */
    (void)close(pipe_fds[0]);
}

static void test_bytes_are_dropped_and_are_no_end(void **state)
{
    (void)state;
    int pipe_fds[2];
    char bytes[1000];
    struct amb_eof eof;
    sem_t ends;
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK), 0);
    begin(&eof, &ends, pipe_fds[0]);
    for (int i = 0; i < 1000; i++) { /* More than a pipe holds. */
        assert_int_equal(write(pipe_fds[1], bytes, sizeof(bytes)), sizeof(bytes));
    }
    await_empty(pipe_fds[0]);
    assert_int_equal(count(&ends), 0);
    (void)close(pipe_fds[1]);
    assert_int_equal(sem_wait(&ends), 0);
    amb_eof_stop(&eof);
    (void)close(pipe_fds[0]);
}

static void test_a_peer_that_has_shut_down_is_an_end(void **state)
{
    (void)state;
    int pair[2];
    struct amb_eof eof;
    sem_t ends;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    begin(&eof, &ends, pair[0]);
    assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
    assert_int_equal(sem_wait(&ends), 0);
    amb_eof_stop(&eof);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_a_file_and_a_bad_descriptor_are_at_their_end(void **state)
{
    (void)state;
    int fds[] = {open("/dev/null", O_RDONLY), open("/", O_RDONLY | O_DIRECTORY), 1 << 28};
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    for (unsigned i = 0; i < 3; i++) {
        struct amb_eof eof;
        sem_t ends;
        begin(&eof, &ends, fds[i]);
        assert_int_equal(sem_wait(&ends), 0);
        amb_eof_stop(&eof);
        assert_int_equal(count(&ends), 0);
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void test_stopped_before_the_end_it_tells_nothing(void **state)
{
    (void)state;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    for (int i = 0; i < 1000; i++) {
        struct amb_eof eof;
        sem_t ends;
        begin(&eof, &ends, pipe_fds[0]);
        amb_eof_stop(&eof);
        assert_int_equal(count(&ends), 0);
    }
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
}

/* A terminal says that there is a byte, and gives it to nobody before there are 255. So does one
 * that another process reads from. */
static void test_stopped_while_it_reads_it_ends(void **state)
{
    (void)state;
    int control = posix_openpt(O_RDWR | O_NOCTTY);
    if (control < 0 || grantpt(control) != 0 || unlockpt(control) != 0) {
        skip();
    }
    int fd = open(ptsname(control), O_RDWR | O_NOCTTY);
    struct termios raw;
    assert_int_equal(tcgetattr(fd, &raw), 0);
    cfmakeraw(&raw);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 255;
    raw.c_lflag |= ECHO;
    assert_int_equal(tcsetattr(fd, TCSANOW, &raw), 0);
    struct amb_eof eof;
    sem_t ends;
    begin(&eof, &ends, fd);
    char echo;
    assert_int_equal(write(control, "x", 1), 1);
    assert_int_equal(read(control, &echo, 1), 1); /* It is there. */
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    while (poll(&readable, 1, 0) != 0) { /* It is taken, and more is waited for. */
        (void)sched_yield();
    }
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    amb_eof_stop(&eof);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(after.tv_sec - before.tv_sec < 10);
    assert_int_equal(count(&ends), 0);
    (void)close(fd);
    (void)close(control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end_of_a_pipe_is_told_once),
        cmocka_unit_test(test_bytes_are_dropped_and_are_no_end),
        cmocka_unit_test(test_a_peer_that_has_shut_down_is_an_end),
        cmocka_unit_test(test_a_file_and_a_bad_descriptor_are_at_their_end),
        cmocka_unit_test(test_stopped_while_it_reads_it_ends),
        cmocka_unit_test(test_stopped_before_the_end_it_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
