/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants in a configuration: their names, the users of unknown ones, and roles with ucx. */
#include "broker/config/config_tenants.h"

#include "tests/support/config_try.h"
#include "tests/support/config_users.h"

#include <stdio.h>

static void test_tenants_are_found_by_name(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("tenants = ( { name = \"plant\"; }, { name = \"lab\"; }, { name = \"$\"; } );");
    assert_int_equal(config->tenants.count, 3);
    assert_string_equal(amb_config_tenant(&config->tenants, "lab")->name, "lab");
    assert_null(amb_config_tenant(&config->tenants, "la"));
    amb_config_destroy(&config);
    try_refuse_part("tenants = ( { name = \"1a\"; } );", "not a name");
    try_refuse_part("tenants = ( { name = \"a.b\"; } );", "not a name");
    try_refuse_part("tenants = ( { name = \"a\"; }, { name = \"a\"; } );", "\"a\"");
    try_refuse_part("tenants = ( { } );", "name");
}

static void test_a_user_of_an_unknown_tenant_is_told_by_its_line(void **state)
{
    (void)state;
    char part[128];
    users_write("op:$:-:-:-:uid/1\ncam:plant:-:-:-:uid/2\nx:lab:-:-:-:uid/3\n");
    struct amb_config *config = try_accept(users_named("")); /* None is named: any will do. */
    amb_config_destroy(&config);
    config = try_accept(users_named("tenants = ( { name = \"plant\"; }, { name = \"lab\"; } );"));
    amb_config_destroy(&config);
    (void)snprintf(part, sizeof(part), "%s:3: no tenant is called \"lab\"", users_path);
    try_refuse_part(users_named("tenants = ( { name = \"plant\"; } );"), part);
}

static void test_ucx_and_two_tenants_need_a_word(void **state)
{
    (void)state;
    static const char role[] = "roles = ( { name = \"fast\"; ucx = true; } );\n";
    char text[512];
    users_write("op:$:-:-:-:uid/1\ncam:plant:fast:-:-:uid/2\n");
    struct amb_config *config = try_accept(users_named(role)); /* Operators do not count. */
    amb_config_destroy(&config);
    users_write("op:$:-:-:-:uid/1\ncam:plant:fast:-:-:uid/2\nx:lab:-:-:-:uid/3\n");
    try_refuse_part(users_named(role), "transports.share_process: role \"fast\" has ucx");
    (void)snprintf(text, sizeof(text), "%stransports = { share_process = true; };", role);
    config = try_accept(users_named(text));
    assert_true(config->share_process);
    amb_config_destroy(&config);
    users_write("cam:plant:fast:-:-:uid/2\n");
    (void)snprintf(text, sizeof(text), "%stenants = ( { name = \"plant\"; }, { name = \"b\"; } );",
                   role);
    try_refuse_part(users_named(text), "as \"b\" and \"plant\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenants_are_found_by_name),
        cmocka_unit_test(test_a_user_of_an_unknown_tenant_is_told_by_its_line),
        cmocka_unit_test(test_ucx_and_two_tenants_need_a_word),
    };
    return cmocka_run_group_tests(tests, users_setup, users_teardown);
}
