/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver and whoever takes the lock from it. The system calls in which a driver lets others run
 * are the test's own, so it decides what happens there.
 */
#include "tests/unit/client/session.h"

#include "client/conn/conn.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "wire/base/clock.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the thread under test; others pass through. */
static _Thread_local bool is_watched;
static struct amb_conn *conn;
static unsigned sleeps;
static bool has_come, slept_too_long;
static atomic_bool is_io_held; /* the I/O thread gets no turn */

/* Gives the lock away for a moment, behind its first sleep: the awaited news comes just then. */
int sched_yield(void)
{
    if (is_watched && sleeps == 1 && !has_come) {
        amb_conn_lock(conn);
        has_come = true;
        amb_conn_changed(conn);
        amb_conn_unlock(conn);
    }
    return (int)syscall(SYS_sched_yield);
}

/* Looks of the thread under test at its socket, before its first sleep. */
static unsigned looks_before;

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (is_watched && sleeps == 0) { /* Of this thread: the others of the program write nothing. */
        looks_before++;
    }
    return syscall(SYS_recvmsg, fd, message, flags);
}

/* The first sleep of a driver ends, for nothing, when it has had the lock for long. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    if (!is_watched) {
        while (atomic_load(&is_io_held)) {
            (void)nanosleep(&(struct timespec){.tv_nsec = AMB_MS}, NULL);
        }
        struct timespec copy = timeout != NULL ? *timeout : (struct timespec){0};
        return (int)syscall(SYS_ppoll, fds, count, timeout != NULL ? &copy : NULL, mask,
                            sizeof(uint64_t));
    }
    sleeps++;
    slept_too_long = slept_too_long || has_come;
    (void)nanosleep(&(struct timespec){.tv_nsec = 3 * AMB_MS}, NULL);
    return 0;
}

static bool is_there(void *arg)
{
    (void)arg;
    return has_come;
}

static void what_came_while_it_let_go_is_seen_before_it_sleeps(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    conn = s.conn;
    sleeps = 0;
    has_come = slept_too_long = false;
    const struct amb_wait wait = {.is_ready = is_there, .timeout_ns = 5 * AMB_SEC};
    amb_conn_lock(conn);
    atomic_fetch_add(&conn->lock_waits, 1); /* Else it would not let go. */
    is_watched = true;
    enum amb_status status = amb_conn_wait(conn, &wait);
    is_watched = false;
    atomic_fetch_sub(&conn->lock_waits, 1);
    amb_conn_unlock(conn);
    assert_int_equal(status, AMB_OK);
    assert_int_equal(sleeps, 1);
    assert_false(slept_too_long);
    session_close(&s);
}

static bool is_never(void *arg)
{
    (void)arg;
    return false;
}

/* As on a machine that is busy with other things. A long wait lets go of the lock, and beats then;
 * these are short. */
static void a_driver_says_the_heartbeat_that_the_io_thread_is_late_with(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    atomic_store(&is_io_held, true);
    fake_broker_look(s.fake, &s.seen);
    uint64_t before = s.seen.pings;
    const struct amb_wait wait = {.is_ready = is_never, .timeout_ns = AMB_MS / 10};
    int64_t until = amb_clock_monotonic_ns() + 5 * AMB_SEC;
    do {
        amb_conn_lock(s.conn);
        is_watched = true;
        assert_int_equal(amb_conn_wait(s.conn, &wait), AMB_ETIMEDOUT);
        is_watched = false;
        amb_conn_unlock(s.conn);
        fake_broker_look(s.fake, &s.seen);
    } while (s.seen.pings < before + 3 && amb_clock_monotonic_ns() < until);
    atomic_store(&is_io_held, false);
    assert_in_range(s.seen.pings, before + 3, UINT64_MAX); /* one may have been on its way */
    session_close(&s);
}

/* Where a thread sleeps at once, its sleep on the socket is the look. */
static void a_driver_that_sleeps_at_once_does_not_look_before(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = NULL;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_OK);
    const struct amb_wait wait = {.is_ready = is_never, .timeout_ns = AMB_MS};
    for (unsigned is_crowded = 0; is_crowded < 2; is_crowded++) {
        amb_conn_lock(s.conn);
        (void)amb_conn_progress(s.conn); /* Finds the socket empty. */
        s.conn->driver.spin.crowd_ns = is_crowded ? AMB_NS_PER_SEC : 0;
        s.conn->driver.spin.crowded_until_ns = is_crowded ? INT64_MAX : 0;
        sleeps = looks_before = 0;
        has_come = false;
        is_watched = true;
        assert_int_equal(amb_conn_wait(s.conn, &wait), AMB_ETIMEDOUT);
        is_watched = false;
        amb_conn_unlock(s.conn);
        assert_true(is_crowded ? looks_before == 0 : looks_before > 0);
    }
    /* A message that came before the sleep ends it. */
    struct amb_msg *msg = NULL;
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "m0");
    amb_msg_release(msg);
    session_close(&s);
}

int main(void)
{
    static struct fake_options quick = {.link = AMB_LINK_RING, .heartbeat_ns = 20 * AMB_MS};
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(what_came_while_it_let_go_is_seen_before_it_sleeps, &ring),
        cmocka_unit_test_prestate(what_came_while_it_let_go_is_seen_before_it_sleeps, &stream),
        cmocka_unit_test_prestate(a_driver_says_the_heartbeat_that_the_io_thread_is_late_with,
                                  &quick),
        cmocka_unit_test_prestate(a_driver_that_sleeps_at_once_does_not_look_before, &stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
