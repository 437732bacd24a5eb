/* SPDX-License-Identifier: Apache-2.0 */
/* How long a thread yields before it sleeps. */
#include "wire/base/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define US INT64_C(1000)

static void yielding_is_given_up_when_it_does_not_help(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 200 * US);
    assert_int_equal(spin.budget_ns, 200 * US);
    for (int i = 0; i < 10; i++) {
        amb_spin_note(&spin, 10000 * US);
    }
    assert_true(spin.budget_ns < 20 * US);
    for (int i = 0; i < 20; i++) {
        amb_spin_note(&spin, 30 * US);
    }
    assert_int_equal(spin.budget_ns, 200 * US);
}

static void on_one_core_nobody_yields(void **state)
{
    (void)state;
    struct amb_spin spin;
    amb_spin_init(&spin, 0);
    amb_spin_note(&spin, 0);
    amb_spin_note(&spin, 1000 * US);
    assert_int_equal(spin.budget_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yielding_is_given_up_when_it_does_not_help),
        cmocka_unit_test(on_one_core_nobody_yields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
