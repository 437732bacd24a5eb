/* SPDX-License-Identifier: Apache-2.0 */
/* Rights are made once for those who have the same, and go with the last of them. */
#include "broker/rights/rights_table.h"

#include "tests/support/rights_try.h"
#include "wire/base/hash.h"

struct fixture {
    struct amb_rights_table table;
    struct try_role plain, of_user, of_tenant;
    const struct amb_role *roles[3];
};

static int set_up(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof(fixture));
    assert_int_equal(amb_rights_table_init(&fixture.table), AMB_OK);
    fixture.plain.role.name = "plain";
    fixture.of_user.role.name = "user";
    fixture.of_tenant.role.name = "tenant";
    try_add(&fixture.plain, 0, "a");
    try_add(&fixture.of_user, 3, "x.%u");
    try_add(&fixture.of_tenant, 2, "x.%t.>");
    fixture.roles[0] = &fixture.plain.role;
    fixture.roles[1] = &fixture.of_user.role;
    fixture.roles[2] = &fixture.of_tenant.role;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    amb_rights_table_fini(&fixture->table);
    return 0;
}

static struct amb_rights *take(struct fixture *fixture, size_t from, size_t count, const char *user,
                               const char *tenant)
{
    const struct amb_rights_of of = {fixture->roles + from, count, user, tenant};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_take(&fixture->table, &of, &rights), AMB_OK);
    return rights;
}

static void the_same_rights_are_there_once(void **state)
{
    struct fixture *fixture = *state;
    struct amb_rights *a = take(fixture, 0, 1, "u", "t");
    struct amb_rights *b = take(fixture, 0, 1, "v", "s");
    assert_ptr_equal(a, b);
    struct amb_rights *other = take(fixture, 0, 2, "u", "t");
    assert_ptr_not_equal(a, other);
    assert_int_equal(amb_map_count(fixture->table.by_key), 2);
    amb_rights_unref(&a);
    assert_int_equal(amb_map_count(fixture->table.by_key), 2);
    amb_rights_unref(&b);
    assert_int_equal(amb_map_count(fixture->table.by_key), 1);
    amb_rights_unref(&other);
    assert_int_equal(amb_map_count(fixture->table.by_key), 0);
}

static void names_count_where_a_pattern_has_them(void **state)
{
    struct fixture *fixture = *state;
    struct amb_rights *a = take(fixture, 1, 1, "u", "t"), *b = take(fixture, 1, 1, "v", "t"),
                      *c = take(fixture, 1, 1, "u", "s");
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(a, c);
    struct amb_rights *d = take(fixture, 2, 1, "u", "t"), *e = take(fixture, 2, 1, "v", "t"),
                      *f = take(fixture, 2, 1, "u", "s");
    assert_ptr_equal(d, e);
    assert_ptr_not_equal(d, f);
    struct amb_rights *const all[] = {a, b, c, d, e, f};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct amb_rights *one = all[i];
        amb_rights_unref(&one);
    }
    assert_int_equal(amb_map_count(fixture->table.by_key), 0);
}

static void other_roles_are_other_rights(void **state)
{
    struct fixture *fixture = *state;
    struct amb_rights *before = take(fixture, 0, 1, "u", "t");
    amb_rights_table_renew(&fixture->table);
    struct amb_rights *after = take(fixture, 0, 1, "u", "t");
    assert_ptr_not_equal(before, after);
    amb_rights_unref(&before);
    struct amb_rights *again = take(fixture, 0, 1, "u", "t");
    assert_ptr_equal(after, again);
    amb_rights_unref(&again);
    /* It outlives the table. */
    amb_rights_table_fini(&fixture->table);
    assert_true(amb_rights_publish(after, "a", 1, NULL));
    amb_rights_unref(&after);
}

static void wrong_ones_leave_nothing(void **state)
{
    struct fixture *fixture = *state;
    char name[AMB_ROLE_NAME_MAX + 2];
    memset(name, 'n', sizeof(name));
    name[AMB_ROLE_NAME_MAX + 1] = '\0';
    const struct amb_rights_of of = {fixture->roles, 3, name, "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_take(&fixture->table, &of, &rights), AMB_EINVAL);
    assert_null(rights);
    assert_int_equal(amb_map_count(fixture->table.by_key), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_rights_are_there_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_count_where_a_pattern_has_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_roles_are_other_rights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_ones_leave_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
