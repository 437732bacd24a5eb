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

#include <errno.h>
#include <poll.h>
#include <pthread.h>
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
static _Thread_local bool is_test; /* the thread that runs the tests */
static atomic_bool is_io_held;     /* the I/O thread gets no turn, */
static atomic_bool is_io_inside;   /* ... and has had its last one */

/* The watched thread's clock is ahead by so much; of this time, if it is not 0. */
static _Thread_local int64_t ahead_ns, stands_at_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (stands_at_ns != 0 && clock == CLOCK_MONOTONIC) {
        now->tv_sec = stands_at_ns / AMB_NS_PER_SEC;
        now->tv_nsec = stands_at_ns % AMB_NS_PER_SEC;
    }
    int64_t ns = now->tv_nsec + ahead_ns;
    now->tv_sec += ns / AMB_NS_PER_SEC;
    now->tv_nsec = ns % AMB_NS_PER_SEC;
    return rc;
}

/* In each of its next yields others run, and then there is a message, which it does not wait for.
 */
#define LENDS 40
static struct fake_broker *lent_by;
static unsigned lends, yields_after;

static void lend(void)
{
    struct pollfd socket = {.fd = amb_link_fd(conn->link), .events = POLLIN};
    if (lends == LENDS) {
        yields_after += sleeps == 0;
        ahead_ns += AMB_NS_PER_US;
        return;
    }
    lends++;
    ahead_ns += AMB_NS_PER_MS / 2;
    fake_broker_deliver(lent_by, 0, 1, "m", 1, lends, 0);
    (void)syscall(SYS_ppoll, &socket, 1, NULL, NULL, sizeof(uint64_t));
}

/* Gives the lock away for a moment, behind its first sleep: the awaited news comes just then. */
int sched_yield(void)
{
    if (is_watched && lent_by != NULL) {
        lend();
        return 0;
    }
    if (is_watched && sleeps == 1 && !has_come) {
        amb_conn_lock(conn);
        has_come = true;
        amb_conn_changed(conn);
        conn->link_state.must_flush = true;
        amb_conn_push(conn, true); /* Left to the driver. */
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

/* The test's thread finds the socket full, once. */
static _Thread_local bool is_full;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (is_full) {
        is_full = false;
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

static _Thread_local bool is_late; /* this thread's next sleep begins when it may */
static atomic_bool is_at_sleep, may_sleep;

static void sleep_late(void)
{
    is_late = false;
    atomic_store(&is_at_sleep, true);
    while (!atomic_load(&may_sleep)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = AMB_MS / 10}, NULL);
    }
}

/* The first sleep of a driver ends, for nothing, when it has had the lock for long. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    if (is_late) {
        sleep_late();
    }
    if (!is_watched) {
        while (!is_test && atomic_load(&is_io_held)) {
            atomic_store(&is_io_inside, true);
            (void)nanosleep(&(struct timespec){.tv_nsec = AMB_MS}, NULL);
        }
        struct timespec copy = timeout != NULL ? *timeout : (struct timespec){0};
        return (int)syscall(SYS_ppoll, fds, count, timeout != NULL ? &copy : NULL, mask,
                            sizeof(uint64_t));
    }
    sleeps++;
    slept_too_long = slept_too_long || has_come;
    ahead_ns += stands_at_ns != 0 ? 3 * AMB_MS : 0;
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
    bool is_left = conn->link_state.must_flush;
    amb_conn_unlock(conn);
    assert_int_equal(status, AMB_OK);
    assert_false(is_left);
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

/* However short its time is. */
static void a_wait_of_no_time_looks_where_it_would_sleep_at_once(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = NULL;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_OK);
    amb_conn_lock(s.conn);
    (void)amb_conn_progress(s.conn);
    s.conn->driver.spin.crowd_ns = AMB_NS_PER_SEC;
    s.conn->driver.spin.crowded_until_ns = INT64_MAX;
    struct pollfd socket = {.fd = amb_link_fd(s.conn->link), .events = POLLIN};
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(poll(&socket, 1, 5000), 1); /* No other thread reads: the lock is ours. */
    const struct amb_wait wait = {.is_ready = is_never, .timeout_ns = 1};
    assert_int_equal(amb_conn_wait(s.conn, &wait), AMB_ETIMEDOUT);
    assert_int_equal(poll(&socket, 1, 0), 0);
    amb_conn_unlock(s.conn);
    struct amb_msg *msg = NULL;
    assert_int_equal(amb_next(sub, AMB_NOWAIT, &msg), AMB_OK);
    amb_msg_release(msg);
    session_close(&s);
}

/* Time that others have used is no part of a wait, and none of a later idle time of that wait. Else
 * a driver among busy threads yields for as long as it has lent its core to them. */
static void a_driver_sleeps_soon_after_its_last_work(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = NULL;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_OK);
    conn = s.conn;
    lends = yields_after = sleeps = 0;
    has_come = false;
    const struct amb_wait wait = {.is_ready = is_never, .timeout_ns = AMB_NS_PER_SEC};
    amb_conn_lock(s.conn);
    lent_by = s.fake;
    stands_at_ns = amb_clock_monotonic_ns(); /* Time that others run is not to look like a slice. */
    is_watched = true;
    assert_int_equal(amb_conn_wait(s.conn, &wait), AMB_ETIMEDOUT);
    is_watched = false;
    lent_by = NULL;
    amb_conn_unlock(s.conn);
    ahead_ns = stands_at_ns = 0;
    assert_int_equal(lends, LENDS);
    assert_in_range(yields_after, 1, 200); /* 200 us of its own */
    session_close(&s);
}

static void *next_of(void *arg)
{
    struct amb_msg *msg = NULL;
    return amb_next(arg, 20 * AMB_SEC, &msg) == AMB_OK ? msg : NULL;
}

static void *late_next_of(void *arg)
{
    is_late = true;
    return next_of(arg);
}

/* Another thread takes all bytes from the socket, and a few of the frames that they are. No byte
 * is left to wake the one that sleeps for another frame. */
static void what_another_thread_leaves_behind_wakes_a_driver(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *subs[2] = {NULL, NULL};
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &subs[0]), AMB_OK);
    assert_int_equal(amb_subscribe(s.conn, "t2", NULL, &subs[1]), AMB_OK);
    atomic_store(&is_at_sleep, false);
    atomic_store(&may_sleep, false);
    pthread_t driver;
    assert_int_equal(pthread_create(&driver, NULL, late_next_of, subs[1]), 0);
    while (!atomic_load(&is_at_sleep)) {
        fake_broker_nap();
    }
    const unsigned others = 2 * AMB_POLL_BUDGET;
    for (unsigned i = 0; i < others; i++) {
        fake_broker_deliver(s.fake, 0, 1, "m", 1, i + 1, 0);
    }
    fake_broker_deliver(s.fake, 1, 2, "m", 1, 1, 0);
    struct amb_msg *msg = NULL;
    assert_int_equal(amb_next(subs[0], AMB_NOWAIT, &msg), AMB_OK);
    amb_msg_release(msg);
    struct pollfd socket = {.fd = amb_link_fd(s.conn->link), .events = POLLIN};
    assert_int_equal(poll(&socket, 1, 0), 0);
    int64_t begin_ns = amb_clock_monotonic_ns();
    atomic_store(&may_sleep, true);
    void *other = NULL;
    assert_int_equal(pthread_join(driver, &other), 0);
    assert_non_null(other);
    assert_in_range(amb_clock_monotonic_ns() - begin_ns, 0, 2 * AMB_SEC);
    amb_msg_release(other);
    session_close(&s);
}

/* A driver that sleeps on the socket hears of room when another thread has found it full. */
static void what_finds_the_socket_full_leaves_while_a_driver_sleeps(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = NULL;
    struct amb_msg *msg = NULL;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    pthread_t driver;
    assert_int_equal(pthread_create(&driver, NULL, next_of, sub), 0);
    bool is_asleep = false;
    for (int i = 0; i < 50000 && !is_asleep; i++) {
        amb_conn_lock(s.conn);
        is_asleep = s.conn->driver.is_asleep;
        amb_conn_unlock(s.conn);
        fake_broker_nap();
    }
    assert_true(is_asleep);
    is_full = true;
    amb_msg_release(msg);
    assert_false(is_full);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 2, 0);
    void *second = NULL;
    assert_int_equal(pthread_join(driver, &second), 0);
    assert_non_null(second);
    amb_msg_release(second);
    session_close(&s);
}

static void break_link(struct amb_link *link)
{
    link->is_down = true;
    link->events->on_down(link->arg, AMB_ENOMEM, "no memory for the ring");
}

/* A flush of one thread finds the link broken. No byte comes to wake the one that sleeps on it. */
static void what_a_flush_of_another_thread_breaks_wakes_a_driver(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = NULL;
    struct amb_msg *msg = NULL;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    pthread_t driver;
    assert_int_equal(pthread_create(&driver, NULL, next_of, sub), 0);
    static struct amb_link_ops broken;
    for (bool is_asleep = false; !is_asleep; fake_broker_nap()) {
        amb_conn_lock(s.conn);
        is_asleep = s.conn->driver.is_asleep;
        if (is_asleep) {
            broken = *s.conn->link->ops;
            broken.flush = break_link;
            s.conn->link->ops = &broken;
        }
        amb_conn_unlock(s.conn);
    }
    int64_t begin_ns = amb_clock_monotonic_ns();
    amb_msg_release(msg);
    void *second = NULL;
    assert_int_equal(pthread_join(driver, &second), 0);
    assert_null(second);
    assert_in_range(amb_clock_monotonic_ns() - begin_ns, 0, 5 * AMB_SEC);
    assert_int_equal(s.conn->session.down, AMB_ENOMEM);
    session_close(&s);
}

/* ... and one that finds it itself, right before its sleep, does not begin that. */
static void what_its_own_flush_breaks_is_not_slept_over(void **state)
{
    struct session s;
    struct amb_options options = AMB_INIT(amb_options);
    options.spin_ns = AMB_SPIN_NEVER;
    session_open(&s, *state, &options);
    static struct amb_link_ops broken;
    const struct amb_wait wait = {.is_ready = is_never, .timeout_ns = 20 * AMB_SEC};
    int64_t begin_ns = amb_clock_monotonic_ns();
    amb_conn_lock(s.conn);
    broken = *s.conn->link->ops;
    broken.flush = break_link;
    s.conn->link->ops = &broken;
    s.conn->link_state.must_flush = true;
    enum amb_status status = amb_conn_wait(s.conn, &wait);
    amb_conn_unlock(s.conn);
    assert_int_equal(status, AMB_ENOMEM);
    assert_in_range(amb_clock_monotonic_ns() - begin_ns, 0, 5 * AMB_SEC);
    session_close(&s);
}

/* In a dialogue on a stream a release takes no call of its own: the next answer has it. */
static void a_release_waits_for_the_next_answer(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = NULL;
    struct amb_pub *pub = NULL;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_OK);
    assert_int_equal(amb_pub_open(s.conn, "answers", NULL, &pub), AMB_OK);
    for (unsigned i = 0; i < 10; i++) {
        if (i == 6) {
            atomic_store(&is_io_inside, false);
            atomic_store(&is_io_held, true);
            while (!atomic_load(&is_io_inside)) {
                fake_broker_nap();
            }
            atomic_store(&s.conn->io.mode, AMB_IO_TICK); /* As it is between two answers. */
        }
        struct amb_msg *msg = NULL;
        fake_broker_deliver(s.fake, 0, 1, "m", 1, i + 1, 0);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
        assert_int_equal(amb_pub_send(pub, "answer", 6, AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
        if (i > 6) { /* The answer has taken the last release along. */
            FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == i);
        }
        amb_msg_release(msg);
        if (i >= 6) {
            amb_conn_lock(s.conn);
            assert_true(s.conn->link_state.may_flush);
            assert_false(s.conn->link_state.must_flush);
            amb_conn_unlock(s.conn);
            fake_broker_look(s.fake, &s.seen);
            assert_int_equal(s.seen.release[0], i);
        }
    }
    atomic_store(&is_io_held, false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 10); /* The I/O thread sends the last one. */
    session_close(&s);
}

int main(void)
{
    is_test = true;
    static struct fake_options quick_stream = {.link = AMB_LINK_STREAM,
                                               .heartbeat_ns = 20 * AMB_MS};
    static struct fake_options quick = {.link = AMB_LINK_RING, .heartbeat_ns = 20 * AMB_MS};
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options slow_stream = {
        .link = AMB_LINK_STREAM, .heartbeat_ns = 60 * AMB_SEC, .peer_timeout_ns = 300 * AMB_SEC};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(what_came_while_it_let_go_is_seen_before_it_sleeps, &ring),
        cmocka_unit_test_prestate(what_came_while_it_let_go_is_seen_before_it_sleeps, &stream),
        cmocka_unit_test_prestate(a_driver_says_the_heartbeat_that_the_io_thread_is_late_with,
                                  &quick),
        cmocka_unit_test_prestate(a_driver_that_sleeps_at_once_does_not_look_before, &stream),
        cmocka_unit_test_prestate(a_wait_of_no_time_looks_where_it_would_sleep_at_once, &stream),
        cmocka_unit_test_prestate(a_driver_sleeps_soon_after_its_last_work, &stream),
        cmocka_unit_test_prestate(what_finds_the_socket_full_leaves_while_a_driver_sleeps, &stream),
        cmocka_unit_test_prestate(what_another_thread_leaves_behind_wakes_a_driver, &slow_stream),
        cmocka_unit_test_prestate(what_a_flush_of_another_thread_breaks_wakes_a_driver, &ring),
        cmocka_unit_test_prestate(what_a_flush_of_another_thread_breaks_wakes_a_driver, &stream),
        cmocka_unit_test_prestate(what_its_own_flush_breaks_is_not_slept_over, &ring),
        cmocka_unit_test_prestate(what_its_own_flush_breaks_is_not_slept_over, &stream),
        cmocka_unit_test_prestate(a_release_waits_for_the_next_answer, &quick_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
