/* SPDX-License-Identifier: Apache-2.0 */
/* Looking keys up, on the real schema. */
#include "broker/config/config_schema.h"
#include "broker/config/config_schema_rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_find_covers_everything_below_what_is_not_there_yet(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    assert_string_equal(amb_config_key_find(keys, count, "cluster.listen.port")->path, "cluster");
    assert_null(amb_config_key_find(keys, count, "clusterx"));
    assert_null(amb_config_key_find(keys, count, "server"));
    assert_null(amb_config_key_find(keys, count, "server.workers.x"));
    assert_null(amb_config_key_find(keys, count, ""));
    assert_true(amb_config_is_group(keys, count, "server"));
    assert_true(amb_config_is_group(keys, count, "memory.host"));
    assert_false(amb_config_is_group(keys, count, "serv"));
    assert_false(amb_config_is_group(keys, count, "listen"));
}

static void test_nearest_finds_slips_and_wrong_places(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    assert_string_equal(amb_config_nearest(keys, count, "server.wrokers"), "server.workers");
    assert_string_equal(amb_config_nearest(keys, count, "workers"), "server.workers");
    assert_string_equal(amb_config_nearest(keys, count, "limits.workers"), "server.workers");
    assert_string_equal(amb_config_nearest(keys, count, "lisen"), "listen");
    assert_string_equal(amb_config_nearest(keys, count, "memory.size"), "memory.host.size");
    assert_null(amb_config_nearest(keys, count, "completely.different"));
    assert_null(amb_config_nearest(keys, count, ""));
}

static void test_nearest_group_is_an_outermost_one(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    char group[AMB_CONFIG_PATH_MAX] = "";
    assert_true(amb_config_nearest_group(keys, count, "trasports", group));
    assert_string_equal(group, "transports");
    assert_true(amb_config_nearest_group(keys, count, "logs", group));
    assert_string_equal(group, "log");
    assert_false(amb_config_nearest_group(keys, count, "workers", group));
    assert_false(amb_config_nearest_group(keys, count, "lisen", group));  /* that is a key */
    assert_false(amb_config_nearest_group(keys, count, "server", group)); /* not another one */
    assert_false(amb_config_nearest_group(keys, count, "servr.workers", group));
    assert_false(amb_config_nearest_group(keys, count, "", group));
}

static void test_variable_names_are_upper_case_paths(void **state)
{
    (void)state;
    char name[AMB_CONFIG_PATH_MAX + 16];
    amb_config_env_name("memory.host.grow_on_demand", name, sizeof(name));
    assert_string_equal(name, "AMBROKER_MEMORY_HOST_GROW_ON_DEMAND");
}

static void test_allowed_names_words_and_ranges(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    char text[320];
    amb_config_allowed(amb_config_key_find(keys, count, "server.workers"), text, sizeof(text));
    assert_string_equal(text, "\"auto\" or a number, 0 to 64");
    amb_config_allowed(amb_config_key_find(keys, count, "transports.tcp"), text, sizeof(text));
    assert_string_equal(text, "\"auto\", \"on\" or \"off\"");
    amb_config_allowed(amb_config_key_find(keys, count, "transports.ring_size"), text,
                       sizeof(text));
    assert_string_equal(text, "a size as \"64M\", 64K to 64M, a power of two");
    keys = amb_config_rule_keys(&count);
    amb_config_allowed(amb_config_key_find(keys, count, "slow"), text, sizeof(text));
    assert_string_equal(
        text,
        "\"block\", \"drop-oldest\", \"drop-newest\", \"latest\", \"spill\" or \"disconnect\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_covers_everything_below_what_is_not_there_yet),
        cmocka_unit_test(test_nearest_finds_slips_and_wrong_places),
        cmocka_unit_test(test_nearest_group_is_an_outermost_one),
        cmocka_unit_test(test_variable_names_are_upper_case_paths),
        cmocka_unit_test(test_allowed_names_words_and_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
