/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/readers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_whose_readers_there_are_is_known_as_they_come_and_go(void **state)
{
    (void)state;
    struct amb_readers readers = {0};
    assert_false(amb_readers_have_foreign(&readers, 1));
    amb_readers_add(&readers, 1);
    amb_readers_add(&readers, 1);
    assert_false(amb_readers_have_foreign(&readers, 1));
    assert_true(amb_readers_have_foreign(&readers, 2));
    amb_readers_add(&readers, 0); /* An operator looks, */
    assert_true(amb_readers_have_foreign(&readers, 1));
    amb_readers_remove(&readers, 0); /* ... and has seen enough. */
    assert_false(amb_readers_have_foreign(&readers, 1));
    amb_readers_remove(&readers, 1);
    assert_true(amb_readers_have_foreign(&readers, 2));
    amb_readers_remove(&readers, 1);
    assert_false(amb_readers_have_foreign(&readers, 2));
}

static void test_with_many_users_nobody_is_taken_for_alone(void **state)
{
    (void)state;
    struct amb_readers readers = {0};
    for (uint32_t user = 1; user <= 5; user++) {
        amb_readers_add(&readers, user);
        amb_readers_add(&readers, user);
    }
    for (uint32_t user = 5; user > 1; user--) {
        amb_readers_remove(&readers, user);
        assert_true(amb_readers_have_foreign(&readers, 1));
        amb_readers_remove(&readers, user);
    }
    assert_false(amb_readers_have_foreign(&readers, 1));
    amb_readers_add(&readers, AMB_USER_NOBODY); /* Never one's own. */
    assert_true(amb_readers_have_foreign(&readers, AMB_USER_NOBODY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whose_readers_there_are_is_known_as_they_come_and_go),
        cmocka_unit_test(test_with_many_users_nobody_is_taken_for_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
