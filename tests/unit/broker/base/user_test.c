/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_the_overflow_uid_is_nobody_and_nobody_is_no_users_fellow(void **state)
{
    (void)state;
    assert_int_equal(amb_user_of_uid(65534, 65534), AMB_USER_NOBODY);
    assert_int_equal(amb_user_of_uid(65534, 4711), 65534);
    assert_int_equal(amb_user_of_uid(4711, 4711), AMB_USER_NOBODY);
    assert_int_equal(amb_user_of_uid(0, 65534), 0);
    assert_int_equal(amb_user_of_uid(UINT32_MAX, 65534), AMB_USER_NOBODY); /* never "tcp" */
    assert_int_equal(amb_user_of_uid(UINT32_MAX - 1, 65534), AMB_USER_NOBODY);
    assert_false(amb_user_has_names(AMB_USER_NOBODY));
    assert_true(amb_user_has_names(AMB_USER_TCP));
    assert_true(amb_user_has_names(0));
    assert_false(amb_user_is_same(AMB_USER_NOBODY, AMB_USER_NOBODY));
    assert_true(amb_user_is_same(7, 7));
    assert_false(amb_user_is_same(7, 8));
    assert_true(amb_user_overflow() < AMB_USER_NOBODY);
}

static void test_a_users_text_is_read_back(void **state)
{
    (void)state;
    char text[AMB_USER_TEXT_MAX];
    uint32_t user;
    assert_string_equal(amb_user_text(1000, text), "1000");
    assert_string_equal(amb_user_text(AMB_USER_TCP, text), "tcp");
    assert_string_equal(amb_user_text(AMB_USER_NOBODY, text), "nobody");
    assert_true(amb_user_parse("tcp", &user));
    assert_int_equal(user, AMB_USER_TCP);
    assert_true(amb_user_parse("1000", &user));
    assert_int_equal(user, 1000);
    static const char *const wrong[] = {"",           "nobody",      "-1",  "1x", "4294967295",
                                        "4294967296", "99999999999", "TCP", " 1"};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(amb_user_parse(wrong[i], &user));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_overflow_uid_is_nobody_and_nobody_is_no_users_fellow),
        cmocka_unit_test(test_a_users_text_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
