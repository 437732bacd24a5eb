/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/hdr, beside sets whose ranks are known. */
#include "tools/common/hdr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct amb_hdr hdr, other;

static int clear(void **state)
{
    (void)state;
    memset(&hdr, 0, sizeof(hdr));
    memset(&other, 0, sizeof(other));
    return 0;
}

static void test_hdr_of_nothing_is_zero(void **state)
{
    (void)state;
    assert_int_equal(amb_hdr_percentile(&hdr, 0), 0);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.5), 0);
    assert_int_equal(amb_hdr_percentile(&hdr, 1), 0);
    assert_true(amb_hdr_mean(&hdr) == 0);
}

static void test_hdr_of_one_is_itself(void **state)
{
    (void)state;
    amb_hdr_record(&hdr, 1234567);
    assert_int_equal(amb_hdr_percentile(&hdr, 0), 1234567);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.999), 1234567);
    assert_int_equal(amb_hdr_percentile(&hdr, 1), 1234567);
    assert_true(amb_hdr_mean(&hdr) == 1234567);
}

static void test_hdr_percentile_is_the_nearest_rank(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 1000; i++) {
        amb_hdr_record(&hdr, i * 7 % 1000 + 1);
    }
    assert_int_equal(amb_hdr_percentile(&hdr, 0), 1);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.5), 500);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.99), 990);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.999), 999);
    assert_int_equal(amb_hdr_percentile(&hdr, 1), 1000);
}

/* At each edge of a step, and at random places between. */
static void test_hdr_is_exact_to_a_thousandth(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (unsigned bit = 0; bit < AMB_HDR_BITS; bit++) {
        for (int i = -2; i < 20; i++) {
            int64_t value = (INT64_C(1) << bit) + (i < 3 ? i : rand_r(&seed) % (1 << (bit % 30)));
            if (value < 0 || value >= INT64_C(1) << AMB_HDR_BITS) {
                continue;
            }
            clear(NULL);
            amb_hdr_record(&hdr, value);
            amb_hdr_record(&hdr, INT64_MAX); /* So that `max` does not help. */
            int64_t got = amb_hdr_percentile(&hdr, 0.5);
            assert_true(got >= value && got - value <= value / 1000);
        }
    }
}

static void test_hdr_counts_what_is_beyond_at_its_ends(void **state)
{
    (void)state;
    amb_hdr_record(&hdr, -5);
    amb_hdr_record(&hdr, INT64_MAX);
    assert_int_equal(hdr.total, 2);
    assert_int_equal(amb_hdr_percentile(&hdr, 0), 0);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.5), 0);
    assert_int_equal(amb_hdr_percentile(&hdr, 1), (INT64_C(1) << AMB_HDR_BITS) - 1);
}

static void test_hdr_add_is_as_if_recorded_in_one(void **state)
{
    (void)state;
    amb_hdr_add(&hdr, &other);
    assert_int_equal(hdr.total, 0);
    amb_hdr_record(&other, 10);
    amb_hdr_record(&other, 3000);
    amb_hdr_add(&hdr, &other);
    memset(&other, 0, sizeof(other));
    amb_hdr_record(&other, 5);
    amb_hdr_add(&hdr, &other);
    assert_int_equal(hdr.total, 3);
    assert_int_equal(amb_hdr_percentile(&hdr, 0), 5);
    assert_int_equal(amb_hdr_percentile(&hdr, 0.5), 10);
    assert_int_equal(amb_hdr_percentile(&hdr, 1), 3000);
    assert_true(amb_hdr_mean(&hdr) == 1005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_hdr_of_nothing_is_zero, clear),
        cmocka_unit_test_setup(test_hdr_of_one_is_itself, clear),
        cmocka_unit_test_setup(test_hdr_percentile_is_the_nearest_rank, clear),
        cmocka_unit_test_setup(test_hdr_is_exact_to_a_thousandth, clear),
        cmocka_unit_test_setup(test_hdr_counts_what_is_beyond_at_its_ends, clear),
        cmocka_unit_test_setup(test_hdr_add_is_as_if_recorded_in_one, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
