/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving from a fake broker: order, names, loss, what is given back and when. */
#include "tests/unit/client/session.h"
#include "wire/codec/position.h"

#include <stdio.h>

static void open_sub(struct session *s, const void *state, const struct amb_sub_options *options,
                     struct amb_sub **sub)
{
    session_open(s, state, NULL);
    assert_int_equal(amb_subscribe(s->conn, "t.>", options, sub), AMB_OK);
}

static struct amb_msg *next(struct amb_sub *sub)
{
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    return msg;
}

static void messages_come_in_order_with_everything_they_carry(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 3, 10, 0);
    fake_broker_deliver(s.fake, 0, 2, "n", 1, 7, 5);
    for (unsigned i = 0; i < 3; i++) {
        struct amb_msg *msg = next(sub);
        char text[8];
        (void)snprintf(text, sizeof(text), "m%u", i);
        assert_payload(msg, text);
        assert_string_equal(amb_msg_topic(msg), "t1");
        assert_string_equal(amb_msg_key(msg), "k");
        assert_null(amb_msg_content_type(msg));
        assert_int_equal(amb_msg_seq(msg), 10 + i);
        assert_int_equal(amb_msg_time(msg), 1234);
        assert_int_equal(amb_msg_lost(msg, NULL), 0);
        assert_int_equal(amb_msg_mem(msg), AMB_MEM_HOST);
        assert_int_equal(amb_msg_device(msg), -1);
        assert_int_equal(amb_msg_deliveries(msg), 1);
        assert_false(amb_msg_wants_reply(msg));
        assert_int_equal(amb_reply(msg, "", 0, AMB_NOWAIT), AMB_ESTATE);
        assert_ptr_equal(amb_msg_sub(msg), sub);
        assert_int_equal((uintptr_t)amb_msg_data(msg) % 16, 0);
        size_t len = 0;
        assert_string_equal(amb_msg_prop(msg, "color", &len), "red");
        assert_int_equal(len, 3);
        assert_null(amb_msg_prop(msg, "none", &len));
        assert_int_equal(amb_msg_prop_count(msg), 1);
        struct amb_prop prop;
        assert_int_equal(amb_msg_prop_at(msg, 0, &prop), AMB_OK);
        assert_string_equal(prop.name, "color");
        assert_int_equal(amb_msg_prop_at(msg, 1, &prop), AMB_ENOTFOUND);
        amb_msg_release(msg);
    }
    struct amb_msg *msg = next(sub);
    enum amb_loss why;
    assert_string_equal(amb_msg_topic(msg), "t2");
    assert_int_equal(amb_msg_lost(msg, &why), 5);
    assert_int_equal(why, AMB_LOSS_SLOW);
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 2);
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.delivered, 4);
    assert_int_equal(info.lost, 5);
    assert_int_equal(info.last_seq, 7);
    assert_int_equal(info.held_msgs, 0);
    session_close(&s);
}

static void a_held_message_holds_its_delivery(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    fake_broker_deliver(s.fake, 0, 1, "a", 2, 1, 0);
    fake_broker_deliver(s.fake, 0, 1, "b", 1, 3, 0);
    struct amb_msg *first = next(sub), *second = next(sub), *third = next(sub);
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.held_msgs, 3);
    amb_msg_release(third);
    amb_msg_release(second);
    assert_ptr_equal(amb_msg_ref(first), first);
    amb_msg_release(first);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.held_msgs, 1);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[0], 0);
    assert_payload(first, "a0");
    amb_msg_release(first);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 2);
    session_close(&s);
}

static void releases_out_of_order_are_told_as_ranges(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.credit_msgs = 80), &sub);
    struct amb_msg *held[16];
    for (unsigned i = 0; i < 16; i++) {
        fake_broker_deliver(s.fake, 0, 1, "a", 1, i + 1, 0);
        held[i] = next(sub);
    }
    for (unsigned i = 1; i < 16; i++) {
        amb_msg_release(held[i]);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.ranges == 1);
    assert_int_equal(s.seen.release[0], 0);
    assert_int_equal(s.seen.range_first, 2);
    assert_int_equal(s.seen.range_count, 11);
    amb_msg_release(held[0]);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 16);
    session_close(&s);
}

static void next_many_takes_what_is_there(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    struct amb_msg *msgs[8];
    size_t count = 99;
    assert_int_equal(amb_next_many(sub, AMB_NOWAIT, msgs, 8, &count), AMB_EAGAIN);
    assert_int_equal(count, 99);
    fake_broker_deliver(s.fake, 0, 1, "a", 5, 1, 0);
    assert_int_equal(amb_next_many(sub, 5 * AMB_SEC, msgs, 8, &count), AMB_OK);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(amb_msg_seq(msgs[i]), i + 1);
        amb_msg_release(msgs[i]);
    }
    assert_int_equal(amb_next(sub, 5 * AMB_MS, msgs), AMB_ETIMEDOUT);
    assert_null(msgs[0]);
    session_close(&s);
}

/* Waits until so many messages are there and none is taken. */
static void expect_pending(struct amb_sub *sub, uint64_t count)
{
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    for (unsigned i = 0; i < 50000 && info.pending_msgs != count; i++) {
        fake_broker_nap();
        assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    }
    assert_int_equal(info.pending_msgs, count);
}

static void deliver_mixed(struct session *s)
{
    fake_broker_deliver(s->fake, 0, 1, "n", 1, 1, 0);
    fake_broker_deliver(s->fake, 0, FAKE_TOPIC_LOW, "l", 2, 1, 0);
    fake_broker_deliver(s->fake, 0, FAKE_TOPIC_HIGH, "h", 1, 1, 0);
    fake_broker_deliver(s->fake, 0, 1, "m", 1, 2, 0);
    fake_broker_deliver(s->fake, 0, FAKE_TOPIC_LOW, "k", 1, 3, 0);
    fake_broker_deliver(s->fake, 0, FAKE_TOPIC_HIGH, "g", 1, 2, 0);
}

static void expect_all(struct amb_sub *sub, const char *const *texts, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct amb_msg *msg = next(sub);
        assert_payload(msg, texts[i]);
        assert_string_equal(amb_msg_topic(msg), "t1");
        assert_int_equal(amb_msg_priority(msg),
                         texts[i][0] == 'h' || texts[i][0] == 'g'   ? AMB_PRIORITY_HIGH
                         : texts[i][0] == 'l' || texts[i][0] == 'k' ? AMB_PRIORITY_LOW
                                                                    : AMB_PRIORITY_NORMAL);
        amb_msg_release(msg);
    }
}

static void what_waits_here_too_is_taken_by_priority(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    deliver_mixed(&s);
    expect_pending(sub, 7);
    expect_all(sub, (const char *const[]){"h0", "g0", "n0", "m0", "l0"}, 5);
    /* Credit of what has overtaken comes back at once. */
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1 && s.seen.ranges >= 2);
    /* One that comes in the middle of a batch is not behind the rest of it. */
    fake_broker_deliver(s.fake, 0, FAKE_TOPIC_HIGH, "h", 1, 3, 0);
    expect_pending(sub, 3);
    uint8_t bytes[256];
    size_t len = sizeof(bytes), at = 0;
    assert_int_equal(amb_sub_position(sub, bytes, &len), AMB_OK);
    struct amb_position_topic topic;
    unsigned seen = 0;
    while (amb_position_next(bytes, len, &at, &topic)) {
        static const uint64_t expected[] = {3, 3, 2}; /* by priority: NORMAL, HIGH, LOW */
        assert_int_equal(topic.next, expected[topic.priority]);
        seen |= 1u << topic.priority;
    }
    assert_int_equal(seen, 7);
    expect_all(sub, (const char *const[]){"h0", "l1", "k0"}, 3);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 7);
    session_close(&s);
}

/* A message that is overtaken here would grow old, unseen. */
static void acknowledgements_keep_the_order_of_deliveries(void **state)
{
    static const enum amb_ack modes[] = {AMB_ACK_EXPLICIT, AMB_ACK_CUMULATIVE};
    for (unsigned i = 0; i < 2; i++) {
        struct session s;
        struct amb_sub *sub;
        open_sub(&s, *state, AMB_SUB(.ack = modes[i]), &sub);
        deliver_mixed(&s);
        expect_pending(sub, 7);
        expect_all(sub, (const char *const[]){"n0", "l0", "l1", "h0", "m0", "k0", "g0"}, 7);
        session_close(&s);
    }
}

static void *wait_for_message(void *arg)
{
    struct amb_msg *msg;
    enum amb_status status = amb_next(arg, AMB_FOREVER, &msg);
    if (status == AMB_OK) {
        amb_msg_release(msg);
    }
    return (void *)(intptr_t)status;
}

static enum amb_status join(pthread_t thread)
{
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    return (enum amb_status)(intptr_t)result;
}

static void several_threads_share_what_arrives(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_message, sub), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        fake_broker_deliver(s.fake, 0, 1, "a", 1, i + 1, 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(join(threads[i]), AMB_OK);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 4);
    session_close(&s);
}

static void stop_ends_waits_and_stays(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_message, sub), 0);
    }
    session_wait_inside(&s, 2);
    amb_stop(s.conn);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(join(threads[i]), AMB_ESTOPPED);
    }
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, AMB_FOREVER, &msg), AMB_ESTOPPED);
    assert_int_equal(amb_poll(s.conn, AMB_FOREVER), AMB_ESTOPPED);
    assert_int_equal(amb_publish(s.conn, "a", "x", 1, AMB_SEC), AMB_OK);
    assert_int_equal(amb_flush(s.conn, 5 * AMB_SEC), AMB_OK);
    amb_stop(NULL);
    session_close(&s);
}

static void closing_wakes_waiters_and_gives_the_unfetched_back(void **state)
{
    struct session s;
    struct amb_sub *sub, *other;
    open_sub(&s, *state, NULL, &sub);
    assert_int_equal(amb_subscribe(s.conn, "t.a", NULL, &other), AMB_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_message, sub), 0);
    session_wait_inside(&s, 1);
    assert_int_equal(amb_sub_close(sub, AMB_SEC), AMB_OK);
    assert_int_equal(join(thread), AMB_ECLOSED);
    FAKE_WAIT(s.fake, &s.seen, s.seen.unsubscribes == 1);
    /* A delivery that was on its way is given back without anybody's help. */
    fake_broker_deliver(s.fake, 0, 1, "late", 1, 1, 0);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    fake_broker_deliver(s.fake, 1, 1, "a", 2, 1, 0);
    struct amb_msg *held = next(other);
    assert_int_equal(amb_sub_close(other, AMB_SEC), AMB_OK);
    assert_payload(held, "a0");
    assert_string_equal(amb_msg_topic(held), "t1");
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.release[1], 0);
    amb_msg_release(held);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[1] == 1);
    assert_int_equal(amb_sub_close(NULL, AMB_SEC), AMB_OK);
    session_close(&s);
}

static void patterns_are_checked_here(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub = (void *)1;
    assert_int_equal(amb_subscribe(s.conn, "a.>.b", NULL, &sub), AMB_ETOPIC);
    assert_null(sub);
    const struct amb_sub_options *elsewhere = AMB_SUB(.lazy = 1, .mem = AMB_MEM_PINNED);
    assert_int_equal(amb_subscribe(s.conn, "a", elsewhere, &sub), AMB_ENOTSUP);
    assert_non_null(strstr(amb_last_error(s.conn).text, "lazy"));
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.subscribes, 0);
    session_close(&s);
}

static void a_delivery_out_of_turn_ends_the_session(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    fake_broker_deliver(s.fake, 0, 1, "a", 1, 1, 0);
    amb_msg_release(next(sub));
    const struct amb_frame frame = {.type = AMB_FRAME_MAP,
                                    .topic = 1,
                                    .count = 1,
                                    .meta_len = 16,
                                    .data_len = 16,
                                    .number = 7,
                                    .segment = 99};
    fake_broker_frame(s.fake, &frame);
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_EPROTO);
    session_close(&s);
}

/* On a stream they may wait for the next answer; the last ones leave without one. */
static void releases_of_answered_messages_leave(void **state)
{
    struct session s;
    struct amb_sub *sub;
    struct amb_pub *pub;
    open_sub(&s, *state, NULL, &sub);
    assert_int_equal(amb_pub_open(s.conn, "answers", NULL, &pub), AMB_OK);
    for (unsigned i = 0; i < 20; i++) {
        fake_broker_deliver(s.fake, 0, 1, "m", 1, i + 1, 0);
        struct amb_msg *msg = next(sub);
        assert_int_equal(amb_pub_send(pub, "answer", 6, AMB_SEC), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
        amb_msg_release(msg);
    }
    bool is_stream = ((const struct fake_options *)*state)->link == AMB_LINK_STREAM;
    assert_true(is_stream == (s.conn->link_state.answers != 0));
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 20);
    /* Messages without answers are given back one by one. */
    for (unsigned i = 20; i < 24; i++) {
        fake_broker_deliver(s.fake, 0, 1, "m", 1, i + 1, 0);
        amb_msg_release(next(sub));
        FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == i + 1);
    }
    assert_int_equal(s.conn->link_state.answers, 0);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(messages_come_in_order_with_everything_they_carry),
        BOTH(a_held_message_holds_its_delivery),
        BOTH(releases_out_of_order_are_told_as_ranges),
        BOTH(next_many_takes_what_is_there),
        BOTH(what_waits_here_too_is_taken_by_priority),
        BOTH(acknowledgements_keep_the_order_of_deliveries),
        BOTH(several_threads_share_what_arrives),
        BOTH(stop_ends_waits_and_stays),
        BOTH(closing_wakes_waiters_and_gives_the_unfetched_back),
        BOTH(patterns_are_checked_here),
        BOTH(a_delivery_out_of_turn_ends_the_session),
        BOTH(releases_of_answered_messages_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
