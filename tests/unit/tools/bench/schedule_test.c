/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of any size have times. */
#include "tools/bench/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_messages_are_due_by_their_rate(void **state)
{
    (void)state;
    assert_int_equal(amb_schedule_ns(0, 1e-300), 0);
    assert_int_equal(amb_schedule_ns(3, 2), 1500000000);
    assert_int_equal(amb_schedule_ns(1, 1e300), 0);
}

static void test_a_rate_that_is_too_small_has_the_longest_time(void **state)
{
    (void)state;
    static const double rates[] = {1e-300, 1e-10, 5e-324};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        assert_int_equal(amb_schedule_ns(1, rates[i]), AMB_SCHEDULE_MAX_NS);
        assert_int_equal(amb_schedule_ns(1e300, rates[i]), AMB_SCHEDULE_MAX_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_due_by_their_rate),
        cmocka_unit_test(test_a_rate_that_is_too_small_has_the_longest_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
