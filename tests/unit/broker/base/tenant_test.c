/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: a number each, for as long as the table lives. */
#include "broker/base/tenant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_a_name_is_one_number_and_operators_have_0(void **state)
{
    (void)state;
    struct amb_tenants tenants;
    struct amb_tenant *tenant, *again;
    assert_int_equal(amb_tenants_init(&tenants), AMB_OK);
    assert_int_equal(amb_tenants_take(&tenants, "$", &tenant), AMB_OK);
    assert_int_equal(tenant->number, AMB_TENANT_OPERATORS);
    for (unsigned i = 1; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%u", i);
        assert_int_equal(amb_tenants_take(&tenants, name, &tenant), AMB_OK);
        assert_int_equal(tenant->number, i);
        assert_int_equal(amb_tenants_take(&tenants, name, &again), AMB_OK);
        assert_ptr_equal(again, tenant);
        assert_string_equal(amb_tenants_name(&tenants, i), name);
    }
    assert_string_equal(amb_tenants_name(&tenants, 0), "$");
    assert_string_equal(amb_tenants_name(&tenants, 100), "");
    amb_tenants_fini(&tenants);
    amb_tenants_fini(&tenants);
}

static void test_a_name_has_a_length(void **state)
{
    (void)state;
    struct amb_tenants tenants;
    struct amb_tenant *tenant = NULL;
    char name[AMB_TENANT_NAME_MAX + 2];
    memset(name, 'a', sizeof(name));
    name[AMB_TENANT_NAME_MAX + 1] = '\0';
    assert_int_equal(amb_tenants_init(&tenants), AMB_OK);
    assert_int_equal(amb_tenants_take(&tenants, name, &tenant), AMB_EINVAL);
    assert_int_equal(amb_tenants_take(&tenants, "", &tenant), AMB_EINVAL);
    name[AMB_TENANT_NAME_MAX] = '\0';
    assert_int_equal(amb_tenants_take(&tenants, name, &tenant), AMB_OK);
    assert_string_equal(tenant->name, name);
    amb_tenants_fini(&tenants);
}

static void test_a_question_is_about_one_or_about_all(void **state)
{
    (void)state;
    assert_true(amb_tenant_is_asked(AMB_TENANT_ANY, 7));
    assert_true(amb_tenant_is_asked(7, 7));
    assert_false(amb_tenant_is_asked(7, 8));
    assert_false(amb_tenant_is_asked(AMB_TENANT_OPERATORS, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_one_number_and_operators_have_0),
        cmocka_unit_test(test_a_name_has_a_length),
        cmocka_unit_test(test_a_question_is_about_one_or_about_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
