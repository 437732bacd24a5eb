/* SPDX-License-Identifier: Apache-2.0 */
/* The window of a publisher: what may leave, and each amount that the broker is asked for. */
#include "client/batch/window.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 80000u

struct window {
    struct amb_link link;
    struct amb_conn conn;
    struct amb_pub pub;
    uint64_t asked; /* the last amount */
    unsigned count; /* how often the broker was asked */
};

static struct window w;

static void on_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    assert_ptr_equal(link, &w.link);
    assert_int_equal(kind, AMB_FLOW_WANT);
    assert_int_equal(handle, 7);
    w.asked = value;
    w.count++;
}

static const struct amb_link_ops ops = {.flow = on_flow};

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    w.link.ops = &ops;
    w.conn.link = &w.link;
    w.conn.session.batch_bytes = BATCH;
    w.pub.conn = &w.conn;
    w.pub.handle = 7;
    w.pub.window.granted = 1000;
    w.pub.window.limit_bytes = 1000000;
    return 0;
}

static void a_batch_that_fits_asks_for_nothing(void **state)
{
    (void)state;
    assert_true(amb_pub_has_window(&w.pub, 1000));
    assert_false(w.conn.link_state.must_flush);
    assert_int_equal(w.count, 0);
}

static void a_batch_without_window_asks_once(void **state)
{
    (void)state;
    w.pub.window.sent = 900;
    for (int i = 0; i < 3; i++) {
        assert_false(amb_pub_has_window(&w.pub, 200));
    }
    assert_int_equal(w.count, 1);
    assert_int_equal(w.asked, 1100);
    assert_true(w.conn.link_state.must_flush);
    w.pub.window.granted = 1100;
    assert_true(amb_pub_has_window(&w.pub, 200));
    assert_int_equal(w.count, 1);
}

static void leased_batches_are_outside(void **state)
{
    (void)state;
    w.pub.window.sent = 5900;
    w.pub.window.leased = 5000;
    w.pub.settle.settled_bytes = 5900;
    assert_true(amb_pub_has_window(&w.pub, 100));
    assert_false(amb_pub_has_window(&w.pub, 101));
    assert_int_equal(w.asked, 1001);
}

static void a_batch_that_grows_asks_for_as_much_again(void **state)
{
    (void)state;
    w.pub.window.granted = 0;
    assert_false(amb_pub_has_window(&w.pub, 100));
    assert_int_equal(w.asked, 100);
    assert_false(amb_pub_has_window(&w.pub, 300));
    assert_int_equal(w.asked, 600);
    assert_false(amb_pub_has_window(&w.pub, BATCH - 10)); /* No more than a full batch. */
    assert_int_equal(w.asked, BATCH);
    assert_int_equal(w.count, 3);
}

static void a_smaller_batch_takes_the_amount_back(void **state)
{
    (void)state;
    w.pub.window.granted = 0;
    assert_false(amb_pub_has_window(&w.pub, 5000));
    assert_false(amb_pub_has_window(&w.pub, 200));
    assert_int_equal(w.asked, 200);
    assert_false(amb_pub_has_window(&w.pub, 5000));
    assert_int_equal(w.asked, 10000);
    w.pub.window.granted = 300;
    assert_true(amb_pub_has_window(&w.pub, 200));
    assert_int_equal(w.asked, 200);
}

static void the_limit_of_the_program_asks_for_nothing(void **state)
{
    (void)state;
    w.pub.window.limit_bytes = 500;
    w.pub.window.sent = 400;
    assert_false(amb_pub_has_window(&w.pub, 200));
    assert_int_equal(w.count, 0);
    assert_int_equal(w.pub.window.need, 200);
    w.pub.settle.settled_bytes = 400; /* One batch may be larger than the limit. */
    assert_true(amb_pub_has_window(&w.pub, 600));
    assert_int_equal(w.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_batch_that_fits_asks_for_nothing, begin),
        cmocka_unit_test_setup(a_batch_without_window_asks_once, begin),
        cmocka_unit_test_setup(leased_batches_are_outside, begin),
        cmocka_unit_test_setup(a_batch_that_grows_asks_for_as_much_again, begin),
        cmocka_unit_test_setup(a_smaller_batch_takes_the_amount_back, begin),
        cmocka_unit_test_setup(the_limit_of_the_program_asks_for_nothing, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
