/* SPDX-License-Identifier: Apache-2.0 */
/* amb_publish: one publisher a topic, kept, and given up when there are too many. */
#include "tests/unit/client/session.h"

#include "client/publish/implicit.h"

static void a_topic_is_opened_once(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, NULL);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(amb_publish(s.conn, i % 2 == 0 ? "a" : "b", "x", 1, AMB_FOREVER), AMB_OK);
    }
    assert_int_equal(amb_flush(s.conn, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.opens, 2);
    assert_int_equal(s.seen.msgs[0], 50);
    assert_int_equal(s.seen.msgs[1], 50);
    session_close(&s);
}

static void the_one_used_least_goes_first(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_publish(s.conn, "a", "x", 1, AMB_FOREVER), AMB_OK);
    assert_int_equal(amb_publish(s.conn, "b", "x", 1, AMB_FOREVER), AMB_OK);
    assert_int_equal(amb_publish(s.conn, "a", "x", 1, AMB_FOREVER), AMB_OK);
    assert_true(amb_implicit_evict(s.conn));
    FAKE_WAIT(s.fake, &s.seen, s.seen.closes == 1);
    assert_int_equal(s.seen.msgs[1], 1); /* flushed before it went */
    assert_int_equal(amb_publish(s.conn, "a", "x", 1, AMB_FOREVER), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.opens, 2); /* a is still there */
    assert_true(amb_implicit_evict(s.conn));
    assert_false(amb_implicit_evict(s.conn));
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_is_opened_once),
        cmocka_unit_test(the_one_used_least_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
