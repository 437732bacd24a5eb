/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait for a broker which says nothing, until the program wants them to turn back. */
#include "client/drive/control.h"
#include "client/drive/lock.h"
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* It says yes at the third question, once. */
struct program {
    unsigned asked, ends;
    pthread_t thread;
    struct amb_conn *conn;
};

static int third(void *arg)
{
    struct program *program = arg;
    assert_true(pthread_equal(pthread_self(), program->thread));
    if (program->conn != NULL) { /* No lock is held: another call goes on meanwhile. */
        amb_conn_lock(program->conn);
        amb_conn_unlock(program->conn);
    }
    bool is_end = ++program->asked % 3 == 0;
    program->ends += is_end;
    return is_end;
}

static int listen_at(char *url, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/amb-interrupt-%d.sock",
                   (int)getpid());
    (void)unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    (void)snprintf(url, size, "unix://%s", address.sun_path);
    return fd;
}

static struct amb_error connect_and_be_interrupted(const char *url, uint32_t retry_first)
{
    struct program program = {.thread = pthread_self()};
    struct amb_error error = {.status = AMB_OK};
    struct amb_conn *conn = (void *)1;
    int64_t begin = amb_clock_monotonic_ns();
    assert_int_equal(amb_connect(url,
                                 AMB_OPTIONS(.is_interrupted = third, .interrupted_arg = &program,
                                             .connect_timeout_ns = 50 * AMB_SEC,
                                             .retry_first = retry_first, .error = &error),
                                 &conn),
                     AMB_ECANCELED);
    assert_null(conn);
    assert_int_equal(program.ends, 1);
    assert_true(amb_clock_monotonic_ns() - begin < 40 * AMB_SEC);
    return error;
}

static void a_connect_turns_back(void **state)
{
    (void)state;
    char url[128];
    int listener = listen_at(url, sizeof(url)); /* Nobody accepts. */
    struct amb_error error = connect_and_be_interrupted(url, 0);
    assert_int_equal(error.status, AMB_ECANCELED);
    assert_string_equal(error.text, "interrupted");
    assert_int_equal(close(listener), 0);
    /* Nobody listens any more: it tries again until it is told not to. */
    error = connect_and_be_interrupted(url, 1);
    assert_string_equal(error.text, "interrupted");
    assert_int_equal(unlink(url + strlen("unix://")), 0);
}

static void a_round_trip_turns_back_and_leaves_nothing(void **state)
{
    struct program program = {.thread = pthread_self()};
    struct session s;
    session_open(&s, NULL,
                 AMB_OPTIONS(.progress = *(enum amb_progress *)*state, .is_interrupted = third,
                             .interrupted_arg = &program, .timeout_ns = 50 * AMB_SEC));
    program.conn = s.conn;
    assert_int_equal(program.asked, 0);
    struct amb_pub *pub = (void *)1;
    assert_int_equal(amb_pub_open(s.conn, "slow", NULL, &pub), AMB_ECANCELED);
    assert_null(pub);
    assert_non_null(strstr(amb_last_error(s.conn).text, "'slow': interrupted"));
    assert_int_equal(amb_publish(s.conn, "slow", "x", 1, AMB_FOREVER), AMB_ECANCELED);
    assert_int_equal(program.ends, 2);
    FAKE_WAIT(s.fake, &s.seen, s.seen.closes == 2); /* The broker is told. */
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_freeze(s.fake);
    struct amb_sub *sub = (void *)1;
    struct amb_msg *msg = (void *)1;
    assert_int_equal(amb_subscribe(s.conn, "a", NULL, &sub), AMB_ECANCELED);
    assert_null(sub);
    assert_int_equal(amb_admin(s.conn, "status", AMB_FOREVER, &msg), AMB_ECANCELED);
    assert_null(msg);
    assert_int_equal(program.ends, 4);
    /* A message that was published stays. A close is not asked about. */
    assert_int_equal(amb_pub_send(pub, "y", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_flush(s.conn, AMB_FOREVER), AMB_ECANCELED);
    assert_int_equal(amb_flush(s.conn, AMB_NOWAIT), AMB_EAGAIN);
    assert_int_equal(program.ends, 5);
    session_close(&s);
}

static int never(void *arg)
{
    unsigned *asked = arg;
    ++*asked;
    return 0;
}

static void a_timeout_stays_what_it_is(void **state)
{
    (void)state;
    unsigned asked = 0;
    struct session s;
    session_open(&s, NULL,
                 AMB_OPTIONS(.is_interrupted = never, .interrupted_arg = &asked,
                             .timeout_ns = 350 * AMB_MS));
    struct amb_pub *pub;
    int64_t begin = amb_clock_monotonic_ns();
    assert_int_equal(amb_pub_open(s.conn, "slow", NULL, &pub), AMB_ETIMEDOUT);
    assert_true(amb_clock_monotonic_ns() - begin >= 350 * AMB_MS);
    assert_in_range(asked, 1, 4);
    session_close(&s);
}

/* Says no to the first signal, and yes to the second one. */
struct waiting {
    struct session s;
    struct amb_sub *sub;
    struct amb_pub *pub;
    enum amb_status (*call)(struct waiting *waiting);
    atomic_uint asked;
    atomic_bool is_back;
};

static int second(void *arg)
{
    struct waiting *waiting = arg;
    if (waiting->s.conn != NULL) { /* It may look, and no lock is held. */
        assert_int_equal(amb_poll(waiting->s.conn, AMB_NOWAIT), AMB_OK);
    }
    return atomic_fetch_add(&waiting->asked, 1) + 1 >= 2;
}

static enum amb_status do_next(struct waiting *waiting)
{
    struct amb_msg *msg;
    return amb_next(waiting->sub, AMB_FOREVER, &msg);
}

static enum amb_status do_poll(struct waiting *waiting)
{
    return amb_poll(waiting->s.conn, AMB_FOREVER);
}

static enum amb_status do_wait_subscribers(struct waiting *waiting)
{
    return amb_pub_wait_subscribers(waiting->pub, 1, AMB_FOREVER);
}

static enum amb_status do_flush(struct waiting *waiting)
{
    return amb_pub_flush(waiting->pub, 0, AMB_FOREVER);
}

static void *wait_in_thread(void *arg)
{
    struct waiting *waiting = arg;
    enum amb_status status = waiting->call(waiting);
    atomic_store(&waiting->is_back, true);
    return (void *)(intptr_t)status;
}

static void on_signal(int number)
{
    (void)number;
}

/* One that comes before the thread sleeps is missed; a later one is not. */
static void signal_until(const struct waiting *waiting, pthread_t thread, unsigned asked)
{
    while (atomic_load(&waiting->asked) < asked) {
        assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
        fake_broker_nap();
    }
}

static void a_signal_asks_and_may_end_any_wait(void **state)
{
    static enum amb_status (*const calls[])(struct waiting * waiting) = {
        do_next, do_poll, do_wait_subscribers, do_flush};
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct waiting waiting = {.sub = NULL};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    session_open(&waiting.s, NULL,
                 AMB_OPTIONS(.progress = *(enum amb_progress *)*state, .is_interrupted = second,
                             .interrupted_arg = &waiting));
    assert_int_equal(amb_pub_open(waiting.s.conn, "a", NULL, &waiting.pub), AMB_OK);
    assert_int_equal(amb_subscribe(waiting.s.conn, "t", NULL, &waiting.sub), AMB_OK);
    fake_broker_hold(waiting.s.fake, true);
    assert_int_equal(amb_pub_send(waiting.pub, "x", 1, AMB_NOWAIT), AMB_OK);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pthread_t thread;
        void *status;
        atomic_store(&waiting.asked, 0);
        atomic_store(&waiting.is_back, false);
        waiting.call = calls[i];
        assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &waiting), 0);
        signal_until(&waiting, thread, 1);
        assert_false(atomic_load(&waiting.is_back));
        signal_until(&waiting, thread, 2);
        assert_int_equal(pthread_join(thread, &status), 0);
        assert_int_equal((intptr_t)status, AMB_ECANCELED);
    }
    /* Nothing is lost by it. */
    struct amb_msg *msg;
    atomic_store(&waiting.asked, 0);
    fake_broker_deliver(waiting.s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(waiting.sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "m0");
    amb_msg_release(msg);
    fake_broker_hold(waiting.s.fake, false);
    assert_int_equal(amb_pub_flush(waiting.pub, 0, 5 * AMB_SEC), AMB_OK);
    session_close(&waiting.s);
}

/* The broker's answer comes while the program thinks. */
static int answered_meanwhile(void *arg)
{
    struct waiting *waiting = arg;
    struct amb_conn *conn = waiting->s.conn;
    amb_conn_lock(conn);
    struct amb_list_node *first = conn->control.requests.next;
    if (first != &conn->control.requests) {
        struct amb_control_request *request =
            AMB_CONTAINER_OF(first, struct amb_control_request, node);
        amb_control_answer(conn, request, AMB_OK, "");
    }
    amb_conn_unlock(conn);
    atomic_fetch_add(&waiting->asked, 1);
    return 1;
}

static enum amb_status do_subscribe(struct waiting *waiting)
{
    return amb_subscribe(waiting->s.conn, "t", NULL, &waiting->sub);
}

static enum amb_status do_open(struct waiting *waiting)
{
    return amb_pub_open(waiting->s.conn, "a", NULL, &waiting->pub);
}

/* A call that answered ECANCELED would take the handle for free while the broker has it in use.
 * Then the broker would refuse the next call that takes it. */
static void an_answer_that_has_come_is_the_answer(void **state)
{
    static enum amb_status (*const calls[])(struct waiting * waiting) = {do_subscribe, do_open};
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct waiting waiting = {.sub = NULL};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    session_open(&waiting.s, NULL,
                 AMB_OPTIONS(.progress = *(enum amb_progress *)*state,
                             .is_interrupted = answered_meanwhile, .interrupted_arg = &waiting,
                             .timeout_ns = 50 * AMB_SEC));
    fake_broker_freeze(waiting.s.fake);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pthread_t thread;
        void *status;
        atomic_store(&waiting.asked, 0);
        waiting.call = calls[i];
        assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &waiting), 0);
        signal_until(&waiting, thread, 1);
        assert_int_equal(pthread_join(thread, &status), 0);
        assert_int_equal((intptr_t)status, AMB_OK);
    }
    session_close(&waiting.s);
}

/* The second thread sleeps until the first one, which drives, has something for it. */
static void a_signal_reaches_one_that_follows(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_handler = on_signal};
    struct waiting waiting = {.call = do_next};
    pthread_t driver, follower;
    void *status;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    session_open(&waiting.s, NULL,
                 AMB_OPTIONS(.is_interrupted = second, .interrupted_arg = &waiting));
    assert_int_equal(amb_subscribe(waiting.s.conn, "t", NULL, &waiting.sub), AMB_OK);
    assert_int_equal(pthread_create(&driver, NULL, wait_in_thread, &waiting), 0);
    session_wait_inside(&waiting.s, 1);
    assert_int_equal(pthread_create(&follower, NULL, wait_in_thread, &waiting), 0);
    session_wait_inside(&waiting.s, 2);
    signal_until(&waiting, follower, 2);
    assert_int_equal(pthread_join(follower, &status), 0);
    assert_int_equal((intptr_t)status, AMB_ECANCELED);
    amb_stop(waiting.s.conn);
    assert_int_equal(pthread_join(driver, &status), 0);
    assert_int_equal((intptr_t)status, AMB_ESTOPPED);
    session_close(&waiting.s);
}

int main(void)
{
    static enum amb_progress thread = AMB_PROGRESS_THREAD, poll_mode = AMB_PROGRESS_POLL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connect_turns_back),
        cmocka_unit_test_prestate(a_round_trip_turns_back_and_leaves_nothing, &thread),
        cmocka_unit_test_prestate(a_round_trip_turns_back_and_leaves_nothing, &poll_mode),
        cmocka_unit_test(a_timeout_stays_what_it_is),
        cmocka_unit_test_prestate(a_signal_asks_and_may_end_any_wait, &thread),
        cmocka_unit_test_prestate(a_signal_asks_and_may_end_any_wait, &poll_mode),
        cmocka_unit_test_prestate(an_answer_that_has_come_is_the_answer, &thread),
        cmocka_unit_test_prestate(an_answer_that_has_come_is_the_answer, &poll_mode),
        cmocka_unit_test(a_signal_reaches_one_that_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
