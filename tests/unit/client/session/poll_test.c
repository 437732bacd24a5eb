/* SPDX-License-Identifier: Apache-2.0 */
/* amb_poll and amb_fd, with and without a thread of the library. */
#include "tests/unit/client/session.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

struct heard {
    uint64_t msgs, subscribers, gaps;
    struct amb_msg *kept;
    struct amb_sub *to_close;
    struct amb_conn *conn;
};

static void on_message(struct amb_msg *msg, void *arg)
{
    struct heard *heard = arg;
    heard->msgs++;
    if (heard->kept == NULL) {
        heard->kept = amb_msg_ref(msg);
    }
    /* Callbacks may call back in, but neither nest nor close. */
    assert_int_equal(amb_poll(heard->conn, AMB_NOWAIT), AMB_ESTATE);
    assert_int_equal(amb_close(heard->conn, AMB_NOWAIT), AMB_ESTATE);
    if (heard->to_close != NULL) {
        assert_int_equal(amb_sub_close(heard->to_close, AMB_SEC), AMB_OK);
        heard->to_close = NULL;
    }
}

static void on_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    struct heard *heard = arg;
    (void)conn;
    if (event->type == AMB_EVENT_SUBSCRIBERS) {
        heard->subscribers = event->count;
    } else if (event->type == AMB_EVENT_GAP) {
        heard->gaps += event->count;
    }
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, timeout_ms) == 1;
}

static void open_heard(struct session *s, const enum amb_progress *mode, struct heard *heard)
{
    memset(heard, 0, sizeof(*heard));
    session_open(s, NULL, AMB_OPTIONS(.progress = *mode, .on_event = on_event, .event_arg = heard));
    heard->conn = s->conn;
}

/* Until fd is quiet, as a program's loop does it. */
static void poll_until_quiet(struct session *s, int fd)
{
    for (int i = 0; i < 1000 && is_readable(fd, 0); i++) {
        assert_int_equal(amb_poll(s->conn, AMB_NOWAIT), AMB_OK);
    }
    assert_false(is_readable(fd, 0));
}

static void the_descriptor_says_when_messages_are_due(void **state)
{
    struct session s;
    struct heard heard;
    struct amb_sub *sub;
    open_heard(&s, *state, &heard);
    assert_int_equal(
        amb_subscribe(s.conn, "t.>", AMB_SUB(.on_message = on_message, .arg = &heard), &sub),
        AMB_OK);
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, AMB_NOWAIT, &msg), AMB_EINVAL);
    int fd = amb_fd(s.conn);
    poll_until_quiet(&s, fd);
    for (unsigned i = 0; i < 3; i++) {
        fake_broker_deliver(s.fake, 0, 1, "m", 200, i * 200 + 1, i);
        while (heard.msgs < (i + 1) * 200) {
            assert_true(is_readable(fd, 5000));
            assert_int_equal(amb_poll(s.conn, AMB_NOWAIT), AMB_OK);
        }
    }
    assert_int_equal(heard.msgs, 600);
    poll_until_quiet(&s, fd);
    assert_int_equal(heard.gaps, 3);
    assert_payload(heard.kept, "m0");
    amb_msg_release(heard.kept);
    session_close(&s);
}

static void poll_waits_for_something_to_do(void **state)
{
    struct session s;
    struct heard heard;
    struct amb_pub *pub;
    open_heard(&s, *state, &heard);
    assert_int_equal(amb_poll(s.conn, 5 * AMB_MS), AMB_ETIMEDOUT);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    int fd = amb_fd(s.conn);
    fake_broker_subscribers(s.fake, 0, 3);
    while (heard.subscribers != 3) {
        enum amb_status status = amb_poll(s.conn, 10 * AMB_MS);
        assert_true(status == AMB_OK || status == AMB_ETIMEDOUT);
    }
    assert_true(fd >= 0);
    session_close(&s);
}

static void stop_makes_the_descriptor_readable_for_good(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, &heard);
    int fd = amb_fd(s.conn);
    amb_stop(s.conn);
    assert_true(is_readable(fd, 5000));
    assert_int_equal(amb_poll(s.conn, AMB_NOWAIT), AMB_ESTOPPED);
    assert_true(is_readable(fd, 0));
    session_close(&s);
}

static void a_lost_broker_makes_the_descriptor_readable(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, &heard);
    int fd = amb_fd(s.conn);
    poll_until_quiet(&s, fd);
    fake_broker_hang_up(s.fake);
    enum amb_status status = AMB_OK;
    while (status == AMB_OK) {
        assert_true(is_readable(fd, 5000));
        status = amb_poll(s.conn, AMB_NOWAIT);
    }
    assert_int_equal(status, AMB_ELOST);
    session_close(&s);
}

static void a_callback_may_close_its_own_subscription(void **state)
{
    struct session s;
    struct heard heard;
    struct amb_sub *sub;
    open_heard(&s, *state, &heard);
    assert_int_equal(
        amb_subscribe(s.conn, "t.>", AMB_SUB(.on_message = on_message, .arg = &heard), &sub),
        AMB_OK);
    heard.to_close = sub;
    fake_broker_deliver(s.fake, 0, 1, "m", 5, 1, 0);
    while (heard.msgs == 0) {
        assert_int_equal(amb_poll(s.conn, 5 * AMB_SEC), AMB_OK);
    }
    assert_int_equal(heard.msgs, 1);
    assert_int_equal(amb_poll(s.conn, AMB_NOWAIT), AMB_OK);
    assert_int_equal(heard.msgs, 1);
    amb_msg_release(heard.kept);
    (void)amb_poll(s.conn, AMB_NOWAIT);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1 && s.seen.unsubscribes == 1);
    session_close(&s);
}

static void without_a_thread_calls_do_everything(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    struct amb_sub *sub;
    struct amb_pub *pub;
    struct amb_msg *msg;
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(amb_pub_send(pub, "12345678", 8, AMB_FOREVER), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 20000);
    assert_int_equal(amb_next(sub, AMB_NOWAIT, &msg), AMB_EAGAIN);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    assert_int_equal(amb_admin(s.conn, "status", 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "{\"query\":\"status\"}");
    assert_null(amb_msg_sub(msg));
    amb_msg_release(msg);
    assert_int_equal(amb_close(s.conn, 5 * AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye);
    fake_broker_stop(s.fake);
}

/* The answer of amb_poll without having called: AMB_OK would be a lie. */
static void what_amb_next_has_taken_is_no_news(void **state)
{
    struct session s;
    struct heard heard;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_heard(&s, *state, &heard);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    assert_int_equal(amb_poll(s.conn, 5 * AMB_MS), AMB_ETIMEDOUT);
    /* A message to be taken is one, once. */
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 2, 0);
    assert_int_equal(amb_poll(s.conn, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_poll(s.conn, 5 * AMB_MS), AMB_ETIMEDOUT);
    assert_int_equal(amb_next(sub, AMB_NOWAIT, &msg), AMB_OK);
    amb_msg_release(msg);
    assert_int_equal(amb_poll(s.conn, -1), AMB_EINVAL);
    session_close(&s);
}

static char memory[4096];

static void *refuse_once(void *ctx, size_t len, size_t align, int device)
{
    unsigned *asked = ctx;
    (void)align;
    (void)device;
    assert_true(len <= sizeof(memory));
    return ++*asked > 1 ? memory : NULL;
}

static void take_back(void *ctx, void *ptr, size_t len, int device)
{
    (void)ctx;
    (void)len;
    (void)device;
    assert_ptr_equal(ptr, memory);
}

static void a_callback_that_had_no_memory_comes_later(void **state)
{
    struct session s;
    struct heard heard;
    struct amb_sub *sub;
    unsigned asked = 0;
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    allocator.alloc = refuse_once;
    allocator.free = take_back;
    allocator.ctx = &asked;
    open_heard(&s, *state, &heard);
    assert_int_equal(
        amb_subscribe(s.conn, "t.>",
                      AMB_SUB(.on_message = on_message, .arg = &heard, .allocator = &allocator),
                      &sub),
        AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_poll(s.conn, 30 * AMB_SEC), AMB_OK);
    assert_int_equal(asked, 2);
    assert_int_equal(heard.msgs, 1);
    amb_msg_release(heard.kept);
    session_close(&s);
}

static void count_atomically(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    _Atomic uint64_t *gaps = arg;
    (void)conn;
    if (event->type == AMB_EVENT_GAP) {
        atomic_fetch_add(gaps, event->count);
    }
}

static void *poll_until_over(void *arg)
{
    struct session *s = arg;
    enum amb_status status;
    do {
        status = amb_poll(s->conn, AMB_FOREVER);
    } while (status == AMB_OK);
    assert_int_equal(status, AMB_ESTOPPED);
    return NULL;
}

/* Each of them may take an event that the other one was woken for. */
static void two_threads_may_wait_for_events(void **state)
{
    struct session s;
    struct amb_sub *sub;
    _Atomic uint64_t gaps = 0;
    session_open(&s, NULL,
                 AMB_OPTIONS(.progress = *(enum amb_progress *)*state, .on_event = count_atomically,
                             .event_arg = &gaps));
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, poll_until_over, &s), 0);
    }
    for (unsigned i = 1; i <= 2000; i++) {
        fake_broker_deliver(s.fake, 0, 1, "m", 1, 2 * i, 1);
        while (i % 10 == 0 && atomic_load(&gaps) != i) {
            fake_broker_nap();
        }
    }
    amb_stop(s.conn);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    session_close(&s);
}

int main(void)
{
    static enum amb_progress thread = AMB_PROGRESS_THREAD, poll_mode = AMB_PROGRESS_POLL;
#define BOTH(test)                                                                                 \
    cmocka_unit_test_prestate(test, &thread), cmocka_unit_test_prestate(test, &poll_mode)
    const struct CMUnitTest tests[] = {
        BOTH(the_descriptor_says_when_messages_are_due),
        BOTH(poll_waits_for_something_to_do),
        BOTH(stop_makes_the_descriptor_readable_for_good),
        BOTH(a_lost_broker_makes_the_descriptor_readable),
        BOTH(a_callback_may_close_its_own_subscription),
        BOTH(what_amb_next_has_taken_is_no_news),
        BOTH(a_callback_that_had_no_memory_comes_later),
        BOTH(two_threads_may_wait_for_events),
        cmocka_unit_test(without_a_thread_calls_do_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
