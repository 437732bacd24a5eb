/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledging to a fake broker: the frames, how many they are, and the waits. */
#include "tests/unit/client/session.h"

#include <stdio.h>

static struct amb_msg *next(struct amb_sub *sub)
{
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    return msg;
}

static void open_sub(struct session *s, const void *state, const struct amb_sub_options *options,
                     struct amb_sub **sub)
{
    session_open(s, state, NULL);
    assert_int_equal(amb_subscribe(s->conn, "t.>", options, sub), AMB_OK);
}

static void what_the_options_say_the_broker_hears(void **state)
{
    struct session s;
    struct amb_sub *sub;
    const int64_t backoff[] = {5, 6, 7};
    open_sub(&s, *state,
             AMB_SUB(.ack = AMB_ACK_EXPLICIT, .ack_wait_ns = 9, .max_deliver = 4, .group = "g",
                     .durable = "d", .backoff_ns = backoff, .backoff_count = 3),
             &sub);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.wish.ack, AMB_ACK_EXPLICIT);
    assert_int_equal(s.seen.wish.ack_wait_ns, 9);
    assert_int_equal(s.seen.wish.max_deliver, 4);
    assert_int_equal(s.seen.wish.backoffs, 3);
    assert_int_equal(s.seen.wish.backoff_ns, 5);
    assert_string_equal(s.seen.wish.group, "g");
    assert_string_equal(s.seen.wish.durable, "d");
    session_close(&s);
}

static void each_word_names_its_message(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 4, 10, 0);
    struct amb_msg *msgs[4];
    for (unsigned i = 0; i < 4; i++) {
        msgs[i] = next(sub);
    }
    assert_int_equal(amb_msg_nak(msgs[1], 77), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks == 1);
    assert_int_equal(s.seen.ack.number, 1);
    assert_int_equal(s.seen.ack.first, 1);
    assert_int_equal(s.seen.ack.count, 1);
    assert_int_equal(s.seen.ack.status, AMB_ACK_KIND_NAK);
    assert_int_equal(s.seen.ack.time_ns, 77);
    assert_int_equal(amb_msg_in_progress(msgs[0]), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks == 2);
    assert_int_equal(s.seen.ack.status, AMB_ACK_KIND_IN_PROGRESS);
    assert_int_equal(amb_msg_term(msgs[2], "no good"), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks == 3 && s.seen.reason[0] != '\0');
    assert_int_equal(s.seen.ack.status, AMB_ACK_KIND_TERM);
    assert_int_equal(s.seen.ack.first, 2);
    assert_string_equal(s.seen.reason, "no good");
    assert_int_equal(amb_msg_term(msgs[3], NULL), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks == 4);
    assert_int_equal(s.seen.ack.type, AMB_FRAME_ACK);
    for (unsigned i = 0; i < 4; i++) {
        amb_msg_release(msgs[i]);
    }
    session_close(&s);
}

static void acks_of_one_delivery_in_a_row_are_few_frames(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 20, 1, 0);
    uint32_t said = 0;
    for (unsigned i = 0; i < 20; i++) {
        struct amb_msg *msg = next(sub);
        assert_int_equal(amb_msg_ack(msg), AMB_OK);
        amb_msg_release(msg);
    }
    /* However they were gathered, the last frame ends with the last message. */
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks > 0 && s.seen.ack.first + s.seen.ack.count == 20);
    said += s.seen.ack.count;
    assert_true(said >= 1 && s.seen.acks <= 20);
    assert_int_equal(amb_flush(s.conn, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.synced_acks, s.seen.acks);
    session_close(&s);
}

static void an_ack_leaves_though_its_company_is_not_acknowledged(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 20, 1, 0);
    struct amb_msg *msgs[20];
    size_t count = 0;
    assert_int_equal(amb_next_many(sub, 5 * AMB_SEC, msgs, 20, &count), AMB_OK);
    assert_int_equal(count, 20);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_msg_ack(msgs[i]), AMB_OK);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks > 0 && s.seen.ack.first + s.seen.ack.count == 3);
    for (unsigned i = 3; i < 20; i++) {
        assert_int_equal(amb_msg_ack(msgs[i]), AMB_OK);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.ack.first + s.seen.ack.count == 20);
    for (unsigned i = 0; i < 20; i++) {
        amb_msg_release(msgs[i]);
    }
    session_close(&s);
}

static void a_cumulative_ack_replaces_those_before_it(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_CUMULATIVE), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 3, 1, 0);
    fake_broker_deliver(s.fake, 0, 1, "n", 3, 4, 0);
    struct amb_msg *last = NULL;
    for (unsigned i = 0; i < 6; i++) {
        amb_msg_release(last);
        last = next(sub);
        assert_int_equal(amb_msg_ack(last), AMB_OK);
    }
    assert_int_equal(amb_flush(s.conn, 5 * AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks > 0 && s.seen.ack.number == 2);
    assert_int_equal(s.seen.ack.first + s.seen.ack.count, 3);
    amb_msg_release(last);
    session_close(&s);
}

static void who_asked_for_no_acks_gives_none(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, NULL, &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    struct amb_msg *msg = next(sub);
    assert_int_equal(amb_msg_ack(msg), AMB_ESTATE);
    assert_int_equal(amb_msg_ack(NULL), AMB_EINVAL);
    assert_int_equal(amb_msg_nak(msg, -1), AMB_EINVAL);
    amb_msg_release(msg);
    session_close(&s);
}

static void the_end_of_a_subscription_says_how_many_there_were(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 2, 1, 0);
    struct amb_msg *first = next(sub), *second = next(sub);
    assert_int_equal(amb_msg_ack(first), AMB_OK);
    assert_int_equal(amb_sub_close(sub, 0), AMB_OK);
    assert_int_equal(amb_msg_ack(second), AMB_ECLOSED);
    FAKE_WAIT(s.fake, &s.seen, s.seen.unsubscribes == 1 && s.seen.acks == 1);
    assert_int_equal(s.seen.synced_acks, 1);
    amb_msg_release(first);
    amb_msg_release(second);
    session_close(&s);
}

static void a_close_that_does_not_wait_says_what_was_gathered(void **state)
{
    struct session s;
    session_open(&s, *state, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    struct amb_sub *sub;
    assert_int_equal(amb_subscribe(s.conn, "t.>", AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 20, 1, 0);
    struct amb_msg *msgs[20];
    size_t count = 0;
    assert_int_equal(amb_next_many(sub, 5 * AMB_SEC, msgs, 20, &count), AMB_OK);
    assert_int_equal(count, 20);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_msg_ack(msgs[i]), AMB_OK);
    }
    for (unsigned i = 0; i < 20; i++) {
        amb_msg_release(msgs[i]);
    }
    assert_int_equal(amb_close(s.conn, AMB_NOWAIT), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.acks > 0 && s.seen.ack.first + s.seen.ack.count == 3);
    fake_broker_stop(s.fake);
}

static void a_drain_stops_what_comes_and_lets_what_is_held_be_acknowledged(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    struct amb_msg *msg = next(sub);
    assert_int_equal(amb_drain(s.conn, 10 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_look(s.fake, &s.seen);
    assert_true(s.seen.stopped);
    amb_msg_release(msg);
    session_close(&s);
}

static void redelivered_messages_say_how_often(void **state)
{
    struct session s;
    struct amb_sub *sub;
    open_sub(&s, *state, AMB_SUB(.ack = AMB_ACK_EXPLICIT), &sub);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    struct amb_msg *msg = next(sub);
    assert_int_equal(amb_msg_deliveries(msg), 1);
    amb_msg_release(msg);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(what_the_options_say_the_broker_hears),
        BOTH(each_word_names_its_message),
        BOTH(acks_of_one_delivery_in_a_row_are_few_frames),
        BOTH(an_ack_leaves_though_its_company_is_not_acknowledged),
        BOTH(a_cumulative_ack_replaces_those_before_it),
        BOTH(who_asked_for_no_acks_gives_none),
        BOTH(the_end_of_a_subscription_says_how_many_there_were),
        BOTH(a_close_that_does_not_wait_says_what_was_gathered),
        BOTH(a_drain_stops_what_comes_and_lets_what_is_held_be_acknowledged),
        BOTH(redelivered_messages_say_how_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
