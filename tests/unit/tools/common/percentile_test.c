/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/percentile, by sets whose ranks are known. */
#include "tools/common/percentile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

static void test_percentile_of_nothing_is_zero(void **state)
{
    (void)state;
    uint32_t one = 5;
    amb_percentile_sort(&one, 0);
    assert_int_equal(amb_percentile(&one, 0, 0.5), 0);
}

static void test_percentile_of_one_is_itself(void **state)
{
    (void)state;
    uint32_t one = 5;
    amb_percentile_sort(&one, 1);
    assert_int_equal(amb_percentile(&one, 1, 0), 5);
    assert_int_equal(amb_percentile(&one, 1, 0.999), 5);
    assert_int_equal(amb_percentile(&one, 1, 1), 5);
}

static void test_percentile_is_the_nearest_rank(void **state)
{
    (void)state;
    uint32_t samples[1000];
    /* 1..1000 in an order that needs sorting: 7 is coprime to 1000. */
    for (uint32_t i = 0; i < 1000; i++) {
        samples[i] = i * 7 % 1000 + 1;
    }
    amb_percentile_sort(samples, 1000);
    assert_int_equal(amb_percentile(samples, 1000, 0), 1);
    assert_int_equal(amb_percentile(samples, 1000, 0.5), 500);
    assert_int_equal(amb_percentile(samples, 1000, 0.99), 990);
    assert_int_equal(amb_percentile(samples, 1000, 0.999), 999);
    assert_int_equal(amb_percentile(samples, 1000, 1), 1000);
}

static void test_percentile_sorts_the_whole_range(void **state)
{
    (void)state;
    uint32_t samples[] = {UINT32_MAX, 0, 1, UINT32_MAX - 1};
    amb_percentile_sort(samples, 4);
    assert_int_equal(samples[0], 0);
    assert_int_equal(amb_percentile(samples, 4, 1), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentile_of_nothing_is_zero),
        cmocka_unit_test(test_percentile_of_one_is_itself),
        cmocka_unit_test(test_percentile_is_the_nearest_rank),
        cmocka_unit_test(test_percentile_sorts_the_whole_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
