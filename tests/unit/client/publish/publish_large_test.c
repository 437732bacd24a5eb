/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are a batch of their own. */
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"

static void large_messages_are_batches_of_their_own_and_keep_their_place(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    static uint8_t large[1500001];
    memset(large, 'x', sizeof(large));
    assert_int_equal(amb_pub_send(pub, "small", 5, AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_send(pub, large, sizeof(large), 5 * AMB_SEC), AMB_OK);
    uint64_t seq = 0;
    assert_int_equal(
        amb_pub_post(pub, AMB_OUT(.data = large, .len = 1500000, .key = "k"), 5 * AMB_SEC, &seq),
        AMB_OK);
    assert_int_equal(seq, 3);
    assert_int_equal(amb_pub_flush(pub, seq, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 3);
    assert_int_equal(s.seen.last_count, 1);
    assert_int_equal(s.seen.last_len, 1500000);
    assert_int_equal(s.seen.last[0], 'x');
    assert_int_equal(amb_pub_send(pub, large, (size_t)3 << 20, AMB_SEC), AMB_ETOOLARGE);
    session_close(&s);
}

static void pieces_are_one_message_and_the_callers_again_at_once(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    static uint8_t bytes[600001];
    memset(bytes, 'y', sizeof(bytes));
    struct amb_iov iov[] = {
        {bytes, sizeof(bytes)}, {NULL, 0}, {bytes, 300000}, {"pieces are one", 15}};
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.iov = iov, .iov_count = 4), 5 * AMB_SEC, NULL),
                     AMB_OK);
    memset(bytes, 'n', sizeof(bytes));
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 1);
    assert_int_equal(s.seen.last_len, 900016);
    assert_int_equal(s.seen.last[0], 'y');
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(large_messages_are_batches_of_their_own_and_keep_their_place),
        BOTH(pieces_are_one_message_and_the_callers_again_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
