/* SPDX-License-Identifier: Apache-2.0 */
/* Users who are kept out: by name, in their order, so many and no more; a share for each tenant. */
#include "broker/control/clients/blocklist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALL 100u /* per cent */

static void test_by_name(void **state)
{
    (void)state;
    struct amb_blocklist blocked = {0};
    assert_null(amb_blocklist_find(&blocked, "a"));
    assert_false(amb_blocklist_remove(&blocked, "a"));
    assert_int_equal(amb_blocklist_add(&blocked, "a", "t", ALL, 7), AMB_OK);
    assert_int_equal(amb_blocklist_add(&blocked, "b", "", ALL, 8), AMB_OK);
    assert_int_equal(amb_blocklist_add(&blocked, "a", "t", ALL, 9), AMB_ESTATE);
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
        assert_int_equal(amb_blocklist_add(&blocked, name, "", ALL, 0), AMB_OK);
    }
    assert_int_equal(amb_blocklist_add(&blocked, "more", "", ALL, 0), AMB_ELIMIT);
    assert_true(amb_blocklist_remove(&blocked, "u17"));
    assert_int_equal(amb_blocklist_add(&blocked, "more", "", ALL, 0), AMB_OK);
    amb_blocklist_fini(&blocked);
}

/* As many as there can be. */
static unsigned block_all(struct amb_blocklist *blocked, const char *tenant, unsigned percent)
{
    unsigned count = 0;
    for (unsigned i = 0; i < AMB_BLOCKLIST_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%s-%u", tenant, i);
        count += amb_blocklist_add(blocked, name, tenant, percent, 0) == AMB_OK;
    }
    return count;
}

static void test_a_tenant_leaves_room_for_others(void **state)
{
    (void)state;
    struct amb_blocklist blocked = {0};
    assert_int_equal(block_all(&blocked, "plant", 50), AMB_BLOCKLIST_MAX / 2);
    assert_int_equal(block_all(&blocked, "lab", 50), AMB_BLOCKLIST_MAX / 4);
    assert_int_equal(amb_blocklist_add(&blocked, "more", "plant", 50, 0), AMB_ELIMIT);
    /* Operators of all may have the rest, for any tenant. */
    assert_int_equal(amb_blocklist_add(&blocked, "more", "plant", ALL, 0), AMB_OK);
    assert_int_equal(block_all(&blocked, "hall", ALL), AMB_BLOCKLIST_MAX / 4 - 1);
    assert_int_equal(blocked.count, AMB_BLOCKLIST_MAX);
    amb_blocklist_fini(&blocked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_so_many),
        cmocka_unit_test(test_a_tenant_leaves_room_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
