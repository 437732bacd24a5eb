/* SPDX-License-Identifier: Apache-2.0 */
/* Deliveries come back in and out of order, and the broker is told. */
#include "client/message/release.h"

#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct amb_release release;

static void arrive(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(amb_release_arrived(&release, 10, 1000), AMB_OK);
    }
}

static void in_order_one_counter_says_it_all(void **state)
{
    (void)state;
    uint64_t first, count;
    amb_release_init(&release, 1000, 1000000);
    arrive(500);
    for (uint64_t n = 1; n <= 500; n++) {
        assert_true(amb_release_back(&release, n));
        assert_int_equal(release.upto, n);
        assert_false(amb_release_range(&release, &first, &count));
    }
    assert_int_equal(release.stuck_msgs, 0);
    amb_release_fini(&release);
}

static void a_held_one_keeps_the_counter_until_it_is_back(void **state)
{
    (void)state;
    amb_release_init(&release, 1000, 1000000);
    arrive(4);
    assert_false(amb_release_back(&release, 2));
    assert_false(amb_release_back(&release, 4));
    assert_int_equal(release.upto, 0);
    assert_int_equal(release.stuck_msgs, 20);
    assert_true(amb_release_back(&release, 1));
    assert_int_equal(release.upto, 2);
    assert_true(amb_release_back(&release, 3));
    assert_int_equal(release.upto, 4);
    assert_int_equal(release.stuck_msgs, 0);
    assert_int_equal(release.stuck_bytes, 0);
    amb_release_fini(&release);
}

static void ranges_are_told_past_an_eighth_of_the_credit_and_once(void **state)
{
    (void)state;
    uint64_t first, count;
    amb_release_init(&release, 800, UINT64_MAX); /* an eighth: 100 messages, 10 deliveries */
    arrive(20);
    for (uint64_t n = 3; n <= 12; n++) {
        assert_false(amb_release_back(&release, n));
    }
    assert_false(amb_release_range(&release, &first, &count));
    assert_false(amb_release_back(&release, 15));
    assert_true(amb_release_range(&release, &first, &count));
    assert_int_equal(first, 3);
    assert_int_equal(count, 10);
    assert_true(amb_release_range(&release, &first, &count));
    assert_int_equal(first, 15);
    assert_int_equal(count, 1);
    assert_false(amb_release_range(&release, &first, &count));
    assert_int_equal(release.stuck_msgs, 0);
    /* The counter passes over what was told. */
    assert_true(amb_release_back(&release, 1));
    assert_true(amb_release_back(&release, 2));
    assert_int_equal(release.upto, 12);
    assert_false(amb_release_range(&release, &first, &count));
    amb_release_fini(&release);
}

static void any_order_ends_with_everything_back(void **state)
{
    (void)state;
    enum {
        ALL = 3000
    };
    static uint64_t order[ALL];
    static uint8_t told[ALL + 1];
    srandom(7);
    amb_release_init(&release, 2000, UINT64_MAX);
    arrive(ALL);
    for (uint64_t i = 0; i < ALL; i++) {
        order[i] = i + 1;
    }
    for (size_t i = ALL - 1; i > 0; i--) {
        size_t j = (size_t)random() % (i + 1);
        uint64_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (size_t i = 0; i < ALL; i++) {
        uint64_t first, count;
        (void)amb_release_back(&release, order[i]);
        while (amb_release_range(&release, &first, &count)) {
            assert_true(first > release.upto);
            for (uint64_t n = first; n < first + count; n++) {
                assert_int_equal(told[n], 0);
                told[n] = 1;
            }
        }
    }
    assert_int_equal(release.upto, ALL);
    assert_int_equal(release.stuck_msgs, 0);
    amb_release_fini(&release);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_one_counter_says_it_all),
        cmocka_unit_test(a_held_one_keeps_the_counter_until_it_is_back),
        cmocka_unit_test(ranges_are_told_past_an_eighth_of_the_credit_and_once),
        cmocka_unit_test(any_order_ends_with_everything_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
