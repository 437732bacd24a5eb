/* SPDX-License-Identifier: Apache-2.0 */
/* The waits of a publisher, and its words on how it stands. */
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"

static void without_window_nothing_leaves_and_nowait_says_so(void **state)
{
    struct session s;
    struct fake_options options = *(const struct fake_options *)*state;
    options.window = 4096;
    session_open(&s, &options, NULL);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    static const char payload[1000];
    uint64_t sent = 0;
    enum amb_status status;
    while ((status = amb_pub_send(pub, payload, sizeof(payload), AMB_NOWAIT)) == AMB_OK) {
        sent++;
        assert_true(sent < 1000);
    }
    assert_int_equal(status, AMB_EAGAIN);
    assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), 20 * AMB_MS), AMB_ETIMEDOUT);
    FAKE_WAIT(s.fake, &s.seen, s.seen.want[0] > 4096);
    assert_true(s.seen.bytes[0] <= 4096);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.blocked, AMB_BLOCKED_WINDOW);
    fake_broker_window(s.fake, 0, 1 << 20);
    assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], sent + 1);
    session_close(&s);
}

static void *let_go(void *arg)
{
    struct session *s = arg;
    session_wait_inside(s, 1);
    for (unsigned i = 0; i < 20; i++) {
        fake_broker_nap();
    }
    fake_broker_hold(s->fake, false);
    return NULL;
}

static void a_large_message_that_was_given_up_holds_up_nothing(void **state)
{
    struct session s;
    struct fake_options options = *(const struct fake_options *)*state;
    options.window = 1 << 20;
    session_open(&s, &options, NULL);
    fake_broker_hold_window(s.fake, true);
    fake_broker_hold(s.fake, true);
    struct amb_pub *pub;
    static const char payload[3 << 19];
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.window_bytes = 100000), &pub), AMB_OK);
    assert_int_equal(amb_pub_send(pub, payload, sizeof(payload), 10 * AMB_MS), AMB_ETIMEDOUT);
    uint64_t sent = 0;
    while (amb_pub_send(pub, payload, 60000, AMB_NOWAIT) == AMB_OK) {
        assert_true(++sent < 10);
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_go, &s), 0);
    assert_int_equal(amb_pub_send(pub, payload, 60000, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    session_close(&s);
}

static void subscribers_can_be_waited_for(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_pub_wait_subscribers(pub, 1, 5 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_subscribers(s.fake, 0, 2);
    assert_int_equal(amb_pub_wait_subscribers(pub, 2, 5 * AMB_SEC), AMB_OK);
    session_close(&s);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_pub_flush(NULL, 0, 0), AMB_EINVAL);
    assert_int_equal(amb_pub_flush(pub, 0, -5), AMB_EINVAL);
    assert_int_equal(amb_pub_flush(pub, 0, AMB_NOWAIT), AMB_OK); /* nothing to wait for */
    assert_int_equal(amb_pub_wait_subscribers(NULL, 1, 0), AMB_EINVAL);
    assert_int_equal(amb_pub_stat(pub, NULL), AMB_EINVAL);
    info.size = 0;
    assert_int_equal(amb_pub_stat(pub, &info), AMB_EINVAL);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(without_window_nothing_leaves_and_nowait_says_so),
        BOTH(a_large_message_that_was_given_up_holds_up_nothing),
        BOTH(subscribers_can_be_waited_for),
        BOTH(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
