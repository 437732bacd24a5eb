/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void monotonic_time_does_not_go_back(void **state)
{
    (void)state;
    int64_t before = amb_clock_monotonic_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = amb_clock_monotonic_ns();
        assert_true(now >= before);
        before = now;
    }
    assert_true(amb_clock_realtime_ns() > INT64_C(1600000000) * AMB_NS_PER_SEC);
}

static void deadlines_do_not_overflow(void **state)
{
    (void)state;
    assert_int_equal(amb_deadline_ns(5, 7), 12);
    assert_true(amb_deadline_ns(5, INT64_MAX) == INT64_MAX);
    assert_true(amb_deadline_ns(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(amb_deadline_ns(INT64_MAX, 0) == INT64_MAX);
    assert_true(amb_deadline_ns(INT64_MAX - 2, 1) == INT64_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(monotonic_time_does_not_go_back),
        cmocka_unit_test(deadlines_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
