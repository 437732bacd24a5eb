/* SPDX-License-Identifier: Apache-2.0 */
/* The things that stay when a session is lost and another one comes, on two fake brokers. */
#include "client/drive/lock.h"

#include "tests/unit/client/session.h"

#include "client/batch/pub.h"
#include "client/message/sub.h"
#include "client/session/backoff.h"
#include "client/subscribe/subscribe.h"

#include <pthread.h>
#include <stdio.h>

struct two {
    struct fake_broker *first, *second;
    struct fake_seen seen, again;
    struct amb_conn *conn;
    unsigned lost, restored, closed;
};

static void on_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    struct two *two = arg;
    (void)conn;
    two->lost += event->type == AMB_EVENT_LOST;
    two->restored += event->type == AMB_EVENT_RESTORED;
    two->closed += event->type == AMB_EVENT_CLOSED;
}

static void open_different(struct two *two, const struct fake_options *first,
                           const struct fake_options *second, uint32_t attempts)
{
    memset(two, 0, sizeof(*two));
    two->first = fake_broker_start(first);
    two->second = fake_broker_start(second);
    char urls[400];
    (void)snprintf(urls, sizeof(urls), "%s,%s", fake_broker_url(two->first),
                   fake_broker_url(two->second));
    assert_int_equal(
        amb_connect(urls,
                    AMB_OPTIONS(.on_event = on_event, .event_arg = two, .reconnect_min_ns = AMB_MS,
                                .reconnect_max_ns = 5 * AMB_MS, .reconnect_attempts = attempts),
                    &two->conn),
        AMB_OK);
}

static void open_two(struct two *two, const struct fake_options *options, uint32_t attempts)
{
    open_different(two, options, options, attempts);
}

/* The first one is gone for good. */
static void lose(struct two *two)
{
    fake_broker_stop(two->first);
    two->first = NULL;
}

static void close_two(struct two *two)
{
    (void)amb_close(two->conn, AMB_NOWAIT);
    if (two->first != NULL) {
        fake_broker_stop(two->first);
    }
    if (two->second != NULL) {
        fake_broker_stop(two->second);
    }
}

static void poll_until(struct two *two, const unsigned *count)
{
    for (int i = 0; i < 500 && *count == 0; i++) {
        (void)amb_poll(two->conn, 10 * AMB_MS);
    }
    assert_int_not_equal(*count, 0);
}

static void handles_go_on_in_the_next_session(void **state)
{
    struct two two;
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_msg *msg, *held;
    open_two(&two, *state, 0);
    assert_int_equal(amb_pub_open(two.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_subscribe(two.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(two.first, 0, 1, "m", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &held), AMB_OK);
    assert_int_equal(amb_pub_send(pub, "1", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    lose(&two);
    poll_until(&two, &two.restored);
    assert_int_not_equal(two.lost, 0);
    assert_int_equal(two.closed, 0);
    assert_int_equal(amb_pub_send(pub, "2", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(two.second, &two.again);
    assert_int_equal(two.again.opens, 1);
    assert_int_equal(two.again.subscribes, 1);
    assert_int_equal(two.again.msgs[0], 1);
    assert_payload(held, "m0"); /* of the session that is over: nobody is told */
    amb_msg_release(held);
    fake_broker_deliver(two.second, 0, 1, "n", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "n0");
    amb_msg_release(msg);
    FAKE_WAIT(two.second, &two.again, two.again.release[0] == 1);
    close_two(&two);
}

/* As amb_msg_ack leaves it, and amb_sub_close, while there is no session. */
static void who_is_closed_while_away_leaves_no_acknowledgement(void **state)
{
    struct two two;
    struct amb_sub *sub;
    open_two(&two, *state, 0);
    assert_int_equal(amb_subscribe(two.conn, "t.>", AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub),
                     AMB_OK);
    amb_conn_lock(two.conn);
    sub->acks.number = sub->acks.count = 1;
    amb_list_push_back(&two.conn->acks.waiting, &sub->acks.node);
    amb_conn_lost(two.conn, AMB_ELOST, "as the test says");
    lose(&two);
    amb_sub_detach(sub);
    amb_sub_leave(sub);
    sub->life.is_user_done = true;
    assert_false(amb_list_is_empty(&two.conn->acks.waiting));
    amb_conn_unlock(two.conn);
    poll_until(&two, &two.restored);
    amb_conn_lock(two.conn);
    assert_true(amb_list_is_empty(&two.conn->acks.waiting));
    amb_conn_unlock(two.conn);
    close_two(&two);
}

static void what_is_not_sent_is_kept_and_what_was_is_unknown(void **state)
{
    struct two two;
    struct amb_pub *pub;
    open_two(&two, *state, 0);
    assert_int_equal(amb_pub_open(two.conn, "a", NULL, &pub), AMB_OK);
    fake_broker_hold(two.first, true);
    assert_int_equal(amb_pub_send(pub, "1", 1, AMB_SEC), AMB_OK);
    FAKE_WAIT(two.first, &two.seen, two.seen.msgs[0] == 1);
    struct fake_broker *second = two.second;
    two.second = NULL;
    fake_broker_stop(second); /* Nobody is there for a while. */
    lose(&two);
    poll_until(&two, &two.lost);
    uint8_t text[1000] = {0};
    for (unsigned i = 0; i < 1000; i++) { /* 16 batches of them */
        assert_int_equal(amb_pub_send(pub, text, sizeof(text), AMB_NOWAIT), AMB_OK);
    }
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.posted, 1001);
    assert_int_equal(info.settled, 1);
    assert_int_equal(info.failed, 1);
    assert_int_equal(info.blocked, AMB_BLOCKED_LOST);
    assert_int_equal(amb_pub_flush(pub, 1, AMB_SEC), AMB_EUNKNOWN);
    assert_int_equal(amb_pub_flush(pub, 0, 20 * AMB_MS), AMB_ETIMEDOUT);
    close_two(&two);
}

static void a_named_publisher_sends_again_what_is_not_confirmed(void **state)
{
    struct two two;
    struct amb_pub *pub;
    open_two(&two, *state, 0);
    assert_int_equal(amb_pub_open(two.conn, "a", AMB_PUB(.name = "me"), &pub), AMB_OK);
    assert_int_equal(amb_pub_send(pub, "0", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_hold(two.first, true);
    assert_int_equal(amb_pub_send(pub, "1", 1, AMB_SEC), AMB_OK);
    FAKE_WAIT(two.first, &two.seen, two.seen.msgs[0] == 2);
    static uint8_t large[100000];
    memset(large, 'l', sizeof(large));
    assert_int_equal(amb_pub_send(pub, "2", 1, AMB_SEC), AMB_OK); /* may wait in its batch */
    lose(&two);
    poll_until(&two, &two.restored);
    assert_int_equal(amb_pub_send(pub, large, sizeof(large), 5 * AMB_SEC), AMB_OK);
    memset(large, 'x', sizeof(large)); /* ours again */
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(two.second, &two.again);
    assert_int_equal(two.again.msgs[0], 3);
    assert_int_equal(two.again.last[0], 'l');
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.settled, 4);
    assert_int_equal(info.failed, 0);
    assert_int_equal(amb_pub_close(pub, AMB_SEC), AMB_OK);
    close_two(&two);
}

/* Open or unused, batches of the session that is over have another size. A larger one that is open
 * goes on: no broker minds. */
static void batches_are_as_large_as_the_next_broker_says(void **state)
{
    static const uint32_t sizes[2][2] = {{1, AMB_BATCH_BYTES}, {AMB_BATCH_BYTES, 16384}};
    static uint8_t payload[70000]; /* with others in a batch only where that holds 80 KiB */
    for (unsigned i = 0; i < 2; i++) {
        struct fake_options first = *(const struct fake_options *)*state, second = first;
        first.window = second.window = UINT64_C(1) << 20;
        first.batch_bytes = sizes[i][0];
        second.batch_bytes = sizes[i][1];
        struct two two;
        struct amb_pub *pubs[2], *gone;
        open_different(&two, &first, &second, 0);
        assert_int_equal(two.conn->session.batch_bytes, i == 0 ? 4096 : AMB_BATCH_BYTES);
        assert_int_equal(amb_pub_open(two.conn, "a", NULL, &pubs[0]), AMB_OK);
        assert_int_equal(amb_pub_open(two.conn, "b", NULL, &gone), AMB_OK);
        assert_int_equal(amb_pub_send(pubs[0], "1", 1, AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_send(gone, "1", 1, AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_close(gone, 5 * AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_flush(pubs[0], 0, 5 * AMB_SEC), AMB_OK);
        assert_non_null(pubs[0]->open);
        assert_int_not_equal(two.conn->batches.plain.count, 0);
        lose(&two);
        poll_until(&two, &two.restored);
        assert_int_equal(two.conn->session.batch_bytes, sizes[i][1]);
        assert_int_equal(amb_pub_open(two.conn, "b", NULL, &pubs[1]), AMB_OK);
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(amb_pub_send(pubs[k], payload, sizeof(payload), AMB_SEC), AMB_OK);
            assert_int_equal(amb_pub_send(pubs[k], payload, 5000, AMB_SEC), AMB_OK);
            assert_true(i == 1 || pubs[k]->open->data_cap == AMB_BATCH_BYTES);
            assert_int_equal(amb_pub_flush(pubs[k], 0, 5 * AMB_SEC), AMB_OK);
            fake_broker_look(two.second, &two.again);
            assert_int_equal(two.again.msgs[pubs[k]->handle], 2);
        }
        close_two(&two);
    }
}

static void attempts_are_counted(void **state)
{
    struct two two;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_two(&two, *state, 3);
    assert_int_equal(amb_subscribe(two.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_stop(two.second);
    two.second = NULL;
    lose(&two);
    enum amb_status status = amb_next(sub, 10 * AMB_SEC, &msg);
    assert_int_equal(status, AMB_ELOST);
    poll_until(&two, &two.closed);
    assert_int_equal(amb_publish(two.conn, "a", "x", 1, AMB_SEC), AMB_ELOST);
    close_two(&two);
}

static void a_stop_and_a_close_wait_for_nobody(void **state)
{
    struct two two;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_two(&two, *state, 0);
    assert_int_equal(amb_subscribe(two.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_stop(two.second);
    two.second = NULL;
    lose(&two);
    poll_until(&two, &two.lost);
    assert_int_equal(amb_next(sub, 20 * AMB_MS, &msg), AMB_ETIMEDOUT);
    amb_stop(two.conn);
    assert_int_equal(amb_next(sub, AMB_FOREVER, &msg), AMB_ESTOPPED);
    close_two(&two);
}

static void waits_double_up_to_a_limit_and_a_fifth_is_chance(void **state)
{
    (void)state;
    struct amb_backoff backoff;
    static const int64_t steps[] = {100, 200, 400, 800, 1000, 1000};
    for (uint64_t chance = 0; chance < 1000; chance++) {
        amb_backoff_init(&backoff, 100, 1000);
        for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            int64_t wait = amb_backoff_next(&backoff, chance * UINT64_C(0x9e3779b97f4a7c15));
            assert_true(wait >= steps[i] - steps[i] / 5 && wait <= steps[i] + steps[i] / 5);
        }
    }
    amb_backoff_init(&backoff, 5000, 1000); /* a minimum above the maximum */
    assert_true(amb_backoff_next(&backoff, 7) <= 1200);
    amb_backoff_init(&backoff, 0, 0);
    assert_int_equal(amb_backoff_next(&backoff, UINT64_MAX), 1);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING}, stream = {.link = AMB_LINK_STREAM};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(handles_go_on_in_the_next_session, &ring),
        cmocka_unit_test_prestate(handles_go_on_in_the_next_session, &stream),
        cmocka_unit_test_prestate(who_is_closed_while_away_leaves_no_acknowledgement, &stream),
        cmocka_unit_test_prestate(what_is_not_sent_is_kept_and_what_was_is_unknown, &ring),
        cmocka_unit_test_prestate(what_is_not_sent_is_kept_and_what_was_is_unknown, &stream),
        cmocka_unit_test_prestate(a_named_publisher_sends_again_what_is_not_confirmed, &ring),
        cmocka_unit_test_prestate(a_named_publisher_sends_again_what_is_not_confirmed, &stream),
        cmocka_unit_test_prestate(batches_are_as_large_as_the_next_broker_says, &ring),
        cmocka_unit_test_prestate(batches_are_as_large_as_the_next_broker_says, &stream),
        cmocka_unit_test_prestate(attempts_are_counted, &ring),
        cmocka_unit_test_prestate(a_stop_and_a_close_wait_for_nobody, &ring),
        cmocka_unit_test(waits_double_up_to_a_limit_and_a_fifth_is_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
