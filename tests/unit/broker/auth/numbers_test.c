/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of users: one for each tenant and name, for as long as the broker lives. */
#include "broker/auth/numbers.h"

#include "broker/base/user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_a_user_keeps_its_number(void **state)
{
    (void)state;
    struct amb_auth_numbers *numbers;
    uint32_t one, two, again, found;
    char name[AMB_AUTH_NAME_MAX];
    assert_int_equal(amb_auth_numbers_create(&numbers), AMB_OK);
    assert_int_equal(amb_auth_numbers_take(numbers, "plant", "cam7", &one), AMB_OK);
    assert_int_equal(amb_auth_numbers_take(numbers, "office", "cam7", &two), AMB_OK);
    assert_int_equal(amb_auth_numbers_take(numbers, "plant", "cam7", &again), AMB_OK);
    assert_int_equal(one, AMB_USER_NAMED);
    assert_int_equal(two, AMB_USER_NAMED + 1);
    assert_int_equal(again, one);
    assert_true(amb_user_is_named(one));
    assert_true(amb_auth_numbers_name(numbers, two, name));
    assert_string_equal(name, "office:cam7");
    assert_false(amb_auth_numbers_name(numbers, two + 1, name));
    assert_false(amb_auth_numbers_name(numbers, 1000, name));
    assert_true(amb_auth_numbers_find(numbers, "plant:cam7", &found));
    assert_int_equal(found, one);
    assert_false(amb_auth_numbers_find(numbers, "cam7", &found));
    struct amb_auth_numbers *other = amb_auth_numbers_ref(numbers);
    amb_auth_numbers_unref(&numbers);
    assert_null(numbers);
    assert_true(amb_auth_numbers_find(other, "plant:cam7", &found));
    amb_auth_numbers_unref(&other);
    amb_auth_numbers_unref(&other);
}

static void test_there_are_many_and_no_more(void **state)
{
    (void)state;
    struct amb_auth_numbers *numbers;
    char name[32], shown[AMB_AUTH_NAME_MAX];
    uint32_t number;
    assert_int_equal(amb_auth_numbers_create(&numbers), AMB_OK);
    for (uint32_t i = 0; i < AMB_AUTH_NUMBERS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "u%u", (unsigned)i);
        assert_int_equal(amb_auth_numbers_take(numbers, "t", name, &number), AMB_OK);
        assert_int_equal(number, AMB_USER_NAMED + i);
    }
    assert_int_equal(amb_auth_numbers_take(numbers, "t", "one_more", &number), AMB_ELIMIT);
    assert_true(amb_auth_numbers_name(numbers, AMB_USER_NAMED + 77, shown));
    assert_string_equal(shown, "t:u77");
    amb_auth_numbers_unref(&numbers);
}

static void test_a_name_that_does_not_fit_is_none(void **state)
{
    (void)state;
    struct amb_auth_numbers *numbers;
    char name[AMB_AUTH_NAME_MAX];
    uint32_t number;
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(amb_auth_numbers_create(&numbers), AMB_OK);
    assert_int_equal(amb_auth_numbers_take(numbers, "t", name, &number), AMB_EINVAL);
    amb_auth_numbers_unref(&numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_user_keeps_its_number),
        cmocka_unit_test(test_there_are_many_and_no_more),
        cmocka_unit_test(test_a_name_that_does_not_fit_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
