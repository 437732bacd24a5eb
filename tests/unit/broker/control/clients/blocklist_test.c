/* SPDX-License-Identifier: Apache-2.0 */
/* Users who are kept out: by name, in their order, so many and no more. */
#include "broker/control/clients/blocklist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_by_name(void **state)
{
    (void)state;
    struct amb_blocklist blocked = {0};
    assert_null(amb_blocklist_find(&blocked, "a"));
    assert_false(amb_blocklist_remove(&blocked, "a"));
    assert_int_equal(amb_blocklist_add(&blocked, "a", "t", 7), AMB_OK);
    assert_int_equal(amb_blocklist_add(&blocked, "b", "", 8), AMB_OK);
    assert_int_equal(amb_blocklist_add(&blocked, "a", "t", 9), AMB_ESTATE);
    assert_int_equal(amb_blocklist_find(&blocked, "a")->since_ns, 7);
    assert_string_equal(amb_blocklist_find(&blocked, "a")->tenant, "t");
    assert_true(amb_blocklist_remove(&blocked, "a"));
    assert_null(amb_blocklist_find(&blocked, "a"));
    assert_non_null(amb_blocklist_find(&blocked, "b"));
    assert_int_equal(blocked.count, 1);
    amb_blocklist_fini(&blocked);
    amb_blocklist_fini(&blocked);
    assert_null(amb_blocklist_find(&blocked, "b"));
}

static void test_so_many(void **state)
{
    (void)state;
    struct amb_blocklist blocked = {0};
    char name[16];
    for (unsigned i = 0; i < AMB_BLOCKLIST_MAX; i++) {
        (void)snprintf(name, sizeof(name), "u%u", i);
        assert_int_equal(amb_blocklist_add(&blocked, name, "", 0), AMB_OK);
    }
    assert_int_equal(amb_blocklist_add(&blocked, "more", "", 0), AMB_ELIMIT);
    assert_true(amb_blocklist_remove(&blocked, "u17"));
    assert_int_equal(amb_blocklist_add(&blocked, "more", "", 0), AMB_OK);
    amb_blocklist_fini(&blocked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
