/* SPDX-License-Identifier: Apache-2.0 */
/* Plain publishes that take a slot by themselves. */
#include "tests/unit/client/session.h"

#include "client/publish/put.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
#define WAIT (20 * AMB_SEC) /* long, for busy machines */

static struct fake_options with_leases = {.lease_bytes = 64 * MIB};

static uint8_t *bytes_of(size_t len)
{
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(i * 7 + 1);
    }
    return bytes;
}

static void the_first_large_publish_asks_and_later_ones_take_a_slot(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, &with_leases, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    uint8_t *bytes = bytes_of(70001);
    assert_int_equal(amb_pub_send(pub, bytes, 70001, WAIT), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 0);
    assert_int_equal(s.seen.batches[0], 1);
    FAKE_WAIT(s.fake, &s.seen, s.seen.leases_mapped == 1);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    while (info.leased == 0) {
        assert_int_equal(amb_pub_send(pub, bytes, 70001, WAIT), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
        assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    }
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 1);
    assert_memory_equal(s.seen.last, bytes, sizeof(s.seen.last));
    /* From a few pieces, borrowed, and with properties, the same. */
    const struct amb_iov iov[] = {{bytes, 20000}, {bytes + 20000, 50001}};
    memset(bytes, 'y', 100);
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.iov = iov, .iov_count = 2, .key = "k"), WAIT, NULL),
                     AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 2);
    assert_memory_equal(s.seen.last, bytes, sizeof(s.seen.last));
    /* Small ones do not. */
    assert_int_equal(amb_pub_send(pub, bytes, AMB_PLAIN_LEASE_MIN - 1, WAIT), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commits[0], 2);
    free(bytes);
    session_close(&s);
}

static void without_a_free_slot_the_ring_does(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, &with_leases, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    uint8_t *bytes = bytes_of(MIB);
    fake_broker_hold_freed(s.fake, true);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    while (info.leased != 16) {
        assert_int_equal(amb_pub_send(pub, bytes, MIB, WAIT), AMB_OK);
        assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    }
    uint64_t posted = info.posted;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(amb_pub_send(pub, bytes, MIB, WAIT), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.commit_msgs[0], 16);
    assert_int_equal(s.seen.msgs[0], posted + 3);
    /* A publish that waits for the window is as content with a slot. */
    fake_broker_hold_window(s.fake, true);
    enum amb_status status;
    do {
        status = amb_pub_send(pub, bytes, MIB, AMB_NOWAIT);
    } while (status == AMB_OK);
    assert_int_equal(status, AMB_EAGAIN);
    fake_broker_free(s.fake, 2, 1);
    assert_int_equal(amb_pub_send(pub, bytes, MIB, WAIT), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, WAIT), AMB_OK);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.leased, 17);
    free(bytes);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_large_publish_asks_and_later_ones_take_a_slot),
        cmocka_unit_test(without_a_free_slot_the_ring_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
