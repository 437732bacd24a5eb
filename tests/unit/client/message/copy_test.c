/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of messages: they carry the same, hold nothing, and stay when all else is gone. */
#include "tests/unit/client/session.h"

static void check(const struct amb_msg *copy, const char *text, uint64_t seq)
{
    size_t len = 0;
    struct amb_prop prop;
    assert_payload(copy, text);
    assert_int_equal((uintptr_t)amb_msg_data(copy) % 16, 0);
    assert_string_equal(amb_msg_topic(copy), "t1");
    assert_string_equal(amb_msg_key(copy), "k");
    assert_null(amb_msg_content_type(copy));
    assert_int_equal(amb_msg_seq(copy), seq);
    assert_int_equal(amb_msg_time(copy), 1234);
    assert_int_equal(amb_msg_deliveries(copy), 1);
    assert_int_equal(amb_msg_mem(copy), AMB_MEM_HOST);
    assert_int_equal(amb_msg_device(copy), -1);
    assert_null(amb_msg_sub(copy));
    assert_string_equal(amb_msg_prop(copy, "color", &len), "red");
    assert_int_equal(len, 3);
    assert_int_equal(amb_msg_prop_count(copy), 1);
    assert_int_equal(amb_msg_prop_at(copy, 0, &prop), AMB_OK);
    assert_string_equal(prop.name, "color");
}

static void a_copy_holds_nothing(void **state)
{
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msgs[3], *copies[3], *again;
    (void)state;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 3, 10, 4);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msgs[i]), AMB_OK);
        assert_int_equal(amb_msg_copy(msgs[i], &copies[i]), AMB_OK);
    }
    for (unsigned i = 0; i < 3; i++) {
        amb_msg_release(msgs[i]);
    }
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    assert_int_equal(amb_sub_stat(sub, &info), AMB_OK);
    assert_int_equal(info.held_msgs, 0);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1); /* The batch is the broker's again. */
    enum amb_loss why;
    assert_int_equal(amb_msg_lost(copies[0], &why), 4);
    assert_int_not_equal(why, AMB_LOSS_NONE);
    assert_int_equal(amb_msg_lost(copies[1], &why), 0);
    assert_int_equal(amb_msg_ack(copies[0]), AMB_ESTATE);
    assert_int_equal(amb_msg_copy(copies[1], &again), AMB_OK);
    amb_msg_release(copies[1]);
    assert_int_equal(amb_drain(s.conn, 5 * AMB_SEC), AMB_OK);
    session_close(&s);
    check(copies[0], "m0", 10);
    check(again, "m1", 11);
    check(copies[2], "m2", 12);
    amb_msg_release(copies[0]);
    amb_msg_release(again);
    amb_msg_release(copies[2]);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    struct session s;
    struct amb_msg *msg = (void *)1;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_msg_copy(NULL, &msg), AMB_EINVAL);
    assert_null(msg);
    assert_int_equal(amb_msg_copy(NULL, NULL), AMB_EINVAL);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_holds_nothing),
        cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
