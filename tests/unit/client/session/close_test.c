/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a session, from either side, and the answers of every call after it. */
#include "client/drive/control.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"

struct ends {
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_conn *conn;
    char events[256];
    enum amb_event_type last;
};

static void on_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    struct ends *ends = arg;
    assert_ptr_equal(conn, ends->conn);
    assert_non_null(event->text);
    ends->last = event->type;
}

static void open_all(struct session *s, const struct fake_options *options, struct ends *ends)
{
    memset(ends, 0, sizeof(*ends));
    session_open(s, options, AMB_OPTIONS(.on_event = on_event, .event_arg = ends));
    ends->conn = s->conn;
    assert_int_equal(amb_pub_open(s->conn, "a", NULL, &ends->pub), AMB_OK);
    assert_int_equal(amb_subscribe(s->conn, "t.>", NULL, &ends->sub), AMB_OK);
}

static void *wait_next(void *arg)
{
    struct amb_msg *msg;
    return (void *)(intptr_t)amb_next(((struct ends *)arg)->sub, AMB_FOREVER, &msg);
}

static void *wait_subscribers(void *arg)
{
    return (void *)(intptr_t)amb_pub_wait_subscribers(((struct ends *)arg)->pub, 1, AMB_FOREVER);
}

static void *wait_flush(void *arg)
{
    return (void *)(intptr_t)amb_flush(((struct ends *)arg)->conn, AMB_FOREVER);
}

static void assert_joins_with(pthread_t thread, enum amb_status expected)
{
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((intptr_t)result, expected);
}

static void assert_all_answer(struct ends *ends, enum amb_status expected)
{
    struct amb_msg *msg;
    struct amb_pub *pub;
    struct amb_sub *sub;
    assert_int_equal(amb_next(ends->sub, AMB_FOREVER, &msg), expected);
    assert_int_equal(amb_pub_send(ends->pub, "x", 1, AMB_FOREVER), expected);
    assert_int_equal(amb_pub_post(ends->pub, AMB_OUT(.data = "x", .len = 1), AMB_FOREVER, NULL),
                     expected);
    assert_int_equal(amb_publish(ends->conn, "b", "x", 1, AMB_FOREVER), expected);
    assert_int_equal(amb_pub_open(ends->conn, "b", NULL, &pub), expected);
    assert_int_equal(amb_subscribe(ends->conn, "b", NULL, &sub), expected);
    assert_int_equal(amb_admin(ends->conn, "status", AMB_FOREVER, &msg), expected);
    assert_int_equal(amb_last_error(ends->conn).status, expected);
}

static void a_broker_that_hangs_up_ends_every_wait(void **state)
{
    struct session s;
    struct ends ends;
    open_all(&s, *state, &ends);
    fake_broker_hold(s.fake, true);
    assert_int_equal(amb_pub_send(ends.pub, "x", 1, AMB_NOWAIT), AMB_OK);
    pthread_t threads[3];
    assert_int_equal(pthread_create(&threads[0], NULL, wait_next, &ends), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, wait_subscribers, &ends), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, wait_flush, &ends), 0);
    session_wait_inside(&s, 3);
    fake_broker_hang_up(s.fake);
    assert_joins_with(threads[0], AMB_ELOST);
    assert_joins_with(threads[1], AMB_ELOST);
    assert_joins_with(threads[2], AMB_ELOST);
    assert_all_answer(&ends, AMB_ELOST);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(ends.pub, &info), AMB_OK);
    assert_int_equal(info.blocked, AMB_BLOCKED_LOST);
    assert_int_equal(info.failed, 1);
    assert_int_equal(amb_poll(s.conn, AMB_FOREVER), AMB_OK); /* the event is due first */
    assert_int_equal(ends.last, AMB_EVENT_LOST);
    assert_int_equal(amb_poll(s.conn, AMB_FOREVER), AMB_ELOST);
    session_close(&s);
}

static void what_had_arrived_is_given_before_the_loss(void **state)
{
    struct session s;
    struct ends ends;
    struct amb_msg *msg;
    open_all(&s, *state, &ends);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 1, 0);
    assert_int_equal(amb_next(ends.sub, 5 * AMB_SEC, &msg), AMB_OK);
    fake_broker_hang_up(s.fake);
    assert_int_equal(amb_pub_wait_subscribers(ends.pub, 1, AMB_FOREVER), AMB_ELOST);
    assert_payload(msg, "m0");
    struct amb_msg *second;
    assert_int_equal(amb_next(ends.sub, AMB_FOREVER, &second), AMB_OK);
    assert_payload(second, "m1");
    struct amb_msg *none;
    assert_int_equal(amb_next(ends.sub, AMB_FOREVER, &none), AMB_ELOST);
    amb_msg_release(second);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    assert_payload(msg, "m0");
    amb_msg_release(msg);
    fake_broker_stop(s.fake);
}

static void a_silent_broker_is_lost(void **state)
{
    (void)state;
    const struct fake_options quick = {.heartbeat_ns = 10 * AMB_NS_PER_MS,
                                       .peer_timeout_ns = 600 * AMB_SEC};
    struct session s;
    struct ends ends;
    open_all(&s, &quick, &ends);
    FAKE_WAIT(s.fake, &s.seen, s.seen.pings > 3);
    fake_broker_freeze(s.fake);
    /* Short only now: before, a fake broker that had no core for so long would have been lost, too.
     */
    amb_conn_lock(s.conn);
    assert_int_equal(s.conn->control.peer_timeout_ns, quick.peer_timeout_ns);
    s.conn->control.peer_timeout_ns = 50 * AMB_NS_PER_MS;
    amb_conn_unlock(s.conn);
    struct amb_msg *msg;
    assert_int_equal(amb_next(ends.sub, AMB_FOREVER, &msg), AMB_ELOST);
    assert_non_null(strstr(amb_last_error(s.conn).text, "silent"));
    session_close(&s);
}

static void a_kicked_client_hears_why(void **state)
{
    struct session s;
    struct ends ends;
    open_all(&s, *state, &ends);
    fake_broker_kick(s.fake, AMB_EKICKED, "you know why");
    struct amb_msg *msg;
    assert_int_equal(amb_next(ends.sub, AMB_FOREVER, &msg), AMB_EKICKED);
    assert_string_equal(amb_last_error(s.conn).text, "you know why");
    assert_all_answer(&ends, AMB_EKICKED);
    assert_int_equal(amb_poll(s.conn, AMB_FOREVER), AMB_OK);
    assert_int_equal(ends.last, AMB_EVENT_CLOSED);
    session_close(&s);
}

/* A broker that ends closes everything at once; which end is seen first is chance. */
static void why_is_heard_though_the_link_is_seen_to_end_first(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    fake_broker_kick(s.fake, AMB_EKICKED, "you know why");
    amb_conn_lock(s.conn);
    s.conn->link_state.is_down = true;
    s.conn->session.link_status = AMB_ELOST;
    (void)amb_conn_receive(s.conn);
    amb_conn_unlock(s.conn);
    assert_string_equal(amb_last_error(s.conn).text, "you know why");
    session_close(&s);
}

static void why_is_heard_by_who_meets_the_end_when_it_asks(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    fake_broker_kick(s.fake, AMB_EKICKED, "you know why");
    fake_broker_hang_up(s.fake);
    struct amb_sub *sub;
    assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &sub), AMB_EKICKED);
    assert_non_null(strstr(amb_last_error(s.conn).text, "you know why"));
    session_close(&s);
}

/* Its waiter has not looked yet when the broker's end comes behind it. */
static void an_answer_that_has_come_outlives_the_session(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    struct amb_control_request answered = {.is_done = true, .status = AMB_OK}, open = {.id = 77};
    amb_conn_lock(s.conn);
    amb_list_push_back(&s.conn->control.requests, &answered.node);
    amb_list_push_back(&s.conn->control.requests, &open.node);
    amb_control_fail_all(s.conn, AMB_ELOST, "gone");
    amb_list_remove(&answered.node);
    amb_list_remove(&open.node);
    amb_conn_unlock(s.conn);
    assert_int_equal(answered.status, AMB_OK);
    assert_true(open.is_done);
    assert_int_equal(open.status, AMB_ELOST);
    session_close(&s);
}

static void closing_wakes_other_threads(void **state)
{
    struct session s;
    struct ends ends;
    open_all(&s, *state, &ends);
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, wait_next, &ends), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, wait_subscribers, &ends), 0);
    struct fake_broker *fake = s.fake;
    session_wait_inside(&s, 2);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    assert_joins_with(threads[0], AMB_ECLOSED);
    assert_joins_with(threads[1], AMB_ECLOSED);
    fake_broker_stop(fake);
}

static void close_answers_the_first_failure(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    fake_broker_refuse(s.fake, AMB_ENOMEM);
    assert_int_equal(amb_publish(s.conn, "a", "x", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_close(s.conn, 5 * AMB_SEC), AMB_ENOMEM);
    assert_int_equal(amb_close(NULL, AMB_NOWAIT), AMB_OK);
    fake_broker_stop(s.fake);
}

/* Else each flush would put the end of those before it off. */
/* So many threads are inside, and it is settled for what they wait. */
static void wait_flushing(struct session *s, uint32_t count)
{
    session_wait_inside(s, count);
    for (bool is_waiting = false; !is_waiting;) {
        amb_conn_lock(s->conn);
        is_waiting = s->conn->driver.flow_waits == count;
        amb_conn_unlock(s->conn);
        fake_broker_nap();
    }
}

static void a_flush_waits_for_what_was_published_before_it_alone(void **state)
{
    struct session s;
    struct ends ends;
    pthread_t first;
    open_all(&s, *state, &ends);
    fake_broker_hold(s.fake, true);
    assert_int_equal(amb_pub_send(ends.pub, "x", 1, AMB_NOWAIT), AMB_OK);
    assert_int_equal(pthread_create(&first, NULL, wait_flush, &ends), 0);
    wait_flushing(&s, 1);
    FAKE_WAIT(s.fake, &s.seen, s.seen.batches[0] == 1);
    assert_int_equal(amb_pub_send(ends.pub, "y", 1, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_flush(s.conn, 10 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_accept(s.fake, 0, 1);
    assert_joins_with(first, AMB_OK);
    assert_int_equal(amb_flush(s.conn, AMB_NOWAIT), AMB_EAGAIN);
    /* Messages that a publisher had not sent at its close have failed, and are over. */
    assert_int_equal(pthread_create(&first, NULL, wait_flush, &ends), 0);
    wait_flushing(&s, 1);
    assert_int_equal(amb_pub_close(ends.pub, AMB_NOWAIT), AMB_OK);
    fake_broker_hold(s.fake, false);
    assert_joins_with(first, AMB_ECANCELED);
    session_close(&s);
}

static void drain_waits_for_what_is_held(void **state)
{
    struct session s;
    struct ends ends;
    struct amb_msg *msg;
    open_all(&s, *state, &ends);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    fake_broker_deliver(s.fake, 0, 1, "n", 1, 2, 0);
    assert_int_equal(amb_next(ends.sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_int_equal(amb_drain(s.conn, 10 * AMB_MS), AMB_ETIMEDOUT);
    amb_msg_release(msg);
    assert_int_equal(amb_drain(s.conn, 5 * AMB_SEC), AMB_OK);
    struct amb_msg *none;
    assert_int_equal(amb_next(ends.sub, AMB_FOREVER, &none), AMB_ECLOSED);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 2 && s.seen.unsubscribes == 1);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(a_broker_that_hangs_up_ends_every_wait),
        BOTH(what_had_arrived_is_given_before_the_loss),
        cmocka_unit_test(a_silent_broker_is_lost),
        BOTH(a_kicked_client_hears_why),
        cmocka_unit_test(an_answer_that_has_come_outlives_the_session),
        cmocka_unit_test(why_is_heard_though_the_link_is_seen_to_end_first),
        cmocka_unit_test(why_is_heard_by_who_meets_the_end_when_it_asks),
        BOTH(closing_wakes_other_threads),
        BOTH(close_answers_the_first_failure),
        BOTH(a_flush_waits_for_what_was_published_before_it_alone),
        BOTH(drain_waits_for_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
