/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns that other programs have, and those that only look like them. */
#include "tools/ctl/habit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_wildcards_of_others(void **state)
{
    (void)state;
    static const char *const many[] = {"#", "a.#", "a/#", "a.#.b"};
    static const char *const one[] = {"+", "a/+", "a/+/b", "a.+"};
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(strstr(amb_habit_of_pattern(many[i]), "a.>"));
        assert_non_null(strstr(amb_habit_of_pattern(one[i]), "a.*.b"));
    }
}

static void test_names_that_only_have_these_signs(void **state)
{
    (void)state;
    static const char *const fine[] = {"a.>", "a.*", "c#", "a.c++", "a.#b", "a/b.c", "a"};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        assert_null(amb_habit_of_pattern(fine[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wildcards_of_others),
        cmocka_unit_test(test_names_that_only_have_these_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
