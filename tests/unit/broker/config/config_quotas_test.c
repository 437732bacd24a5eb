/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas in a configuration: the limits that a user and a tenant get. */
#include "broker/config/config_quotas.h"

#include "tests/support/config_try.h"
#include "tests/support/config_users.h"

#include <stdio.h>

static const char *with_users(const char *users, const char *more)
{
    users_write(users);
    return users_named(more);
}

static void test_a_user_has_its_quota_then_the_default_then_what_is_built_in(void **state)
{
    (void)state;
    uint64_t limits[AMB_QUOTA_COUNT];
    struct amb_config *config = try_accept("");
    assert_string_equal(amb_config_quota_of_user(config, NULL, limits), "default");
    assert_int_equal(limits[AMB_QUOTA_CONNECTIONS], AMB_QUOTA_NONE);
    assert_int_equal(limits[AMB_QUOTA_PAIRS], config->limits.max_pairs / 2 + 1);
    assert_int_equal(limits[AMB_QUOTA_NAMES], AMB_NAMES_MAX / 2);
    amb_config_destroy(&config);
    config = try_accept("quotas = ( { name = \"small\"; connections = 8; pairs = \"1K\"; },\n"
                        "           { name = \"default\"; connections = 100; topics = 7; },\n"
                        "           { name = \"open\"; pairs = \"none\"; topics = \"none\"; } );");
    assert_string_equal(amb_config_quota_of_user(config, "small", limits), "small");
    assert_int_equal(limits[AMB_QUOTA_CONNECTIONS], 8);
    assert_int_equal(limits[AMB_QUOTA_PAIRS], 1024);
    assert_int_equal(limits[AMB_QUOTA_TOPICS], 7);
    assert_int_equal(limits[AMB_QUOTA_NAMES], AMB_NAMES_MAX / 2);
    assert_int_equal(limits[AMB_QUOTA_PUBLISHERS], AMB_QUOTA_NONE);
    assert_string_equal(amb_config_quota_of_user(config, "open", limits), "open");
    assert_int_equal(limits[AMB_QUOTA_CONNECTIONS], 100);
    assert_int_equal(limits[AMB_QUOTA_PAIRS], AMB_QUOTA_NONE);
    assert_int_equal(limits[AMB_QUOTA_TOPICS], AMB_QUOTA_NONE);
    assert_string_equal(amb_config_quota_of_user(config, NULL, limits), "default");
    assert_int_equal(limits[AMB_QUOTA_CONNECTIONS], 100);
    amb_config_destroy(&config);
}

static void test_a_tenant_has_what_its_quota_names(void **state)
{
    (void)state;
    uint64_t limits[AMB_QUOTA_COUNT];
    struct amb_config *config =
        try_accept("quotas = ( { name = \"big\"; connections = 9; }, { name = \"default\"; topics "
                   "= 1; } );\ntenants = ( { name = \"plant\"; quota = \"big\"; }, { name = "
                   "\"lab\"; } );");
    assert_string_equal(amb_config_quota_of_tenant(config, "plant", limits), "big");
    assert_int_equal(limits[AMB_QUOTA_CONNECTIONS], 9);
    assert_int_equal(limits[AMB_QUOTA_TOPICS], AMB_QUOTA_NONE);
    assert_int_equal(limits[AMB_QUOTA_PAIRS], AMB_QUOTA_NONE);
    for (unsigned i = 0; i < 2; i++) {
        assert_string_equal(amb_config_quota_of_tenant(config, i == 0 ? "lab" : "none", limits),
                            "");
        assert_int_equal(limits[AMB_QUOTA_CONNECTIONS], AMB_QUOTA_NONE);
    }
    amb_config_destroy(&config);
}

static void test_unknown_quotas_are_refused(void **state)
{
    (void)state;
    char part[128];
    (void)snprintf(part, sizeof(part), "%s:2: no quota is called \"tiny\"", users_path);
    try_refuse_part(with_users("a:p:-:default:-:uid/1\nb:p:-:tiny:-:uid/2\n", ""), part);
    try_refuse_part(
        with_users("a:p:-:-:-:uid/1\n", "tenants = ( { name = \"p\"; quota = \"tiny\"; } );"),
        "of \"p\": no quota is called \"tiny\"");
    struct amb_config *config = try_accept(
        with_users("a:p:-:tiny:-:uid/1\n", "quotas = ( { name = \"tiny\"; connections = 1; } );"));
    amb_config_destroy(&config);
    try_refuse_part("quotas = ( { name = \"a.b\"; } );", "not a name");
    try_refuse_part("quotas = ( { name = \"a\"; conections = 1; } );", "unknown key");
    try_refuse_part("quotas = ( { name = \"a\"; connections = -3; } );", "connections");
    try_refuse_part("quotas = ( { name = \"a\"; connections = \"many\"; } );", "connections");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_user_has_its_quota_then_the_default_then_what_is_built_in),
        cmocka_unit_test(test_a_tenant_has_what_its_quota_names),
        cmocka_unit_test(test_unknown_quotas_are_refused),
    };
    return cmocka_run_group_tests(tests, users_setup, users_teardown);
}
