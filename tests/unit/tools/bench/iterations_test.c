/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/bench/iterations, on times whose figures are known. */
#include "tools/bench/iterations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static double real_of(const json_t *result, const char *key)
{
    return json_real_value(json_object_get(result, key));
}

static void test_iterations_median_is_the_middle_or_between_the_two(void **state)
{
    (void)state;
    const int64_t odd[] = {1, 5, 100}, even[] = {1, 4, 8, 100};
    assert_int_equal(amb_iterations_median(odd, 3), 5);
    assert_int_equal(amb_iterations_median(even, 4), 6);
    assert_int_equal(amb_iterations_median(even, 1), 1);
    assert_int_equal(amb_iterations_median(even, 0), 0);
}

static void test_iterations_mean_of_none_is_nothing(void **state)
{
    (void)state;
    const int64_t took_ns[] = {1000, 2000, 6000};
    assert_true(amb_iterations_mean(took_ns, 3) > 2999 && amb_iterations_mean(took_ns, 3) < 3001);
    assert_true(amb_iterations_mean(took_ns, 0) < 1);
}

static void test_iterations_are_averaged_by_time_and_shown_in_their_order(void **state)
{
    (void)state;
    int64_t took_ns[] = {3000000, 1000000, 2000000, 10000000};
    json_t *result = json_object();
    amb_iterations_add(took_ns, 4, 1e6, true, result);
    /* 4 MB in 16 ms; one MB in 2.5 ms. */
    assert_true(real_of(result, "mb_per_s") > 249.9 && real_of(result, "mb_per_s") < 250.1);
    assert_true(real_of(result, "mb_per_s_median") > 399.9 &&
                real_of(result, "mb_per_s_median") < 400.1);
    assert_true(real_of(result, "total_s") > 0.01599 && real_of(result, "total_s") < 0.01601);
    const json_t *rows = json_object_get(result, "iteration");
    assert_int_equal(json_array_size(rows), 4);
    assert_true(real_of(json_array_get(rows, 0), "us") > 2999);
    assert_true(real_of(json_array_get(rows, 1), "us") < 1001);
    json_decref(result);
}

static void test_iterations_are_rows_only_on_request(void **state)
{
    (void)state;
    int64_t took_ns[] = {1000};
    json_t *result = json_object();
    amb_iterations_add(took_ns, 1, 1, false, result);
    assert_null(json_object_get(result, "iteration"));
    amb_iterations_add(took_ns, 0, 1, false, result);
    assert_true(real_of(result, "mb_per_s") < 1e-9);
    json_decref(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iterations_median_is_the_middle_or_between_the_two),
        cmocka_unit_test(test_iterations_mean_of_none_is_nothing),
        cmocka_unit_test(test_iterations_are_averaged_by_time_and_shown_in_their_order),
        cmocka_unit_test(test_iterations_are_rows_only_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
