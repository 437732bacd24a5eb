/* SPDX-License-Identifier: Apache-2.0 */
/* Positions: what a subscription has taken, as bytes for another one. */
#include "tests/unit/client/session.h"
#include "wire/codec/position.h"

static void take(struct amb_sub *sub, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct amb_msg *msg;
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
        amb_msg_release(msg);
    }
}

static uint64_t next_of(const uint8_t *bytes, size_t len, const char *name)
{
    struct amb_position_topic at;
    return amb_position_find(bytes, len, name, strlen(name), AMB_PRIORITY_NORMAL, &at) ? at.next
                                                                                       : 0;
}

static void it_names_what_was_taken_and_not_what_has_come(void **state)
{
    struct session s;
    struct amb_sub *sub;
    uint8_t bytes[256];
    struct amb_position position;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    size_t len = sizeof(bytes);
    assert_int_equal(amb_sub_position(sub, bytes, &len), AMB_OK);
    assert_int_equal(amb_position_read(bytes, len, &position), AMB_OK);
    assert_int_equal(position.count, 0);

    fake_broker_deliver(s.fake, 0, 1, "m", 3, 10, 0);
    fake_broker_deliver(s.fake, 0, 2, "n", 2, 7, 0);
    take(sub, 2);
    len = sizeof(bytes);
    assert_int_equal(amb_sub_position(sub, bytes, &len), AMB_OK);
    assert_int_equal(next_of(bytes, len, "t1"), 12);
    assert_int_equal(next_of(bytes, len, "t2"), 0);
    take(sub, 3);
    len = sizeof(bytes);
    assert_int_equal(amb_sub_position(sub, bytes, &len), AMB_OK);
    assert_int_equal(amb_position_read(bytes, len, &position), AMB_OK);
    assert_int_equal(position.count, 2);
    assert_int_equal(next_of(bytes, len, "t1"), 13);
    assert_int_equal(next_of(bytes, len, "t2"), 9);
    session_close(&s);
}

static void it_says_how_much_room_it_needs(void **state)
{
    struct session s;
    struct amb_sub *sub;
    uint8_t bytes[256];
    session_open(&s, *state, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 10, 0);
    take(sub, 1);
    size_t len = 0;
    assert_int_equal(amb_sub_position(sub, NULL, &len), AMB_ETOOLARGE);
    assert_true(len > 0 && len <= sizeof(bytes));
    size_t needed = len;
    assert_int_equal(amb_sub_position(sub, bytes, &len), AMB_OK);
    assert_int_equal(len, needed);
    assert_int_equal(amb_sub_position(NULL, bytes, &len), AMB_EINVAL);
    assert_int_equal(amb_sub_position(sub, NULL, &len), AMB_EINVAL);
    session_close(&s);
}

static void what_it_was_begun_with_stays_in_it(void **state)
{
    struct session s;
    struct amb_sub *sub;
    uint8_t former[256], bytes[256];
    session_open(&s, *state, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 10, 0);
    fake_broker_deliver(s.fake, 0, 2, "n", 1, 20, 0);
    take(sub, 2);
    size_t len = sizeof(former);
    assert_int_equal(amb_sub_position(sub, former, &len), AMB_OK);
    assert_int_equal(amb_sub_close(sub, AMB_SEC), AMB_OK);

    assert_int_equal(
        amb_subscribe(s.conn, "t.>",
                      AMB_SUB(.start = AMB_START_POSITION, .position = former, .position_len = len),
                      &sub),
        AMB_OK);
    fake_broker_deliver(s.fake, 1, 2, "n", 1, 21, 0);
    take(sub, 1);
    size_t more = sizeof(bytes);
    assert_int_equal(amb_sub_position(sub, bytes, &more), AMB_OK);
    assert_int_equal(next_of(bytes, more, "t1"), 11);
    assert_int_equal(next_of(bytes, more, "t2"), 22);

    former[0] = 'B';
    assert_int_equal(
        amb_subscribe(s.conn, "t.>",
                      AMB_SUB(.start = AMB_START_POSITION, .position = former, .position_len = len),
                      &sub),
        AMB_EINVAL);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(it_names_what_was_taken_and_not_what_has_come, &ring),
        cmocka_unit_test_prestate(it_says_how_much_room_it_needs, &ring),
        cmocka_unit_test_prestate(what_it_was_begun_with_stays_in_it, &ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
