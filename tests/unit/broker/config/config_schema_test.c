/* SPDX-License-Identifier: Apache-2.0 */
/* The table itself: every row is well-formed, and rows are found in it. */
#include "broker/config/config_schema.h"

#include "broker/config/config_roles.h"
#include "tests/support/config_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_every_row_is_well_formed(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    config_rows_check(keys, count, sizeof(struct amb_config));
    for (size_t i = 0; i < count; i++) {
        assert_true(!amb_config_has_field(&keys[i]) || keys[i].default_text != NULL);
    }
    keys = amb_config_role_keys(&count);
    config_rows_check(keys, count, sizeof(struct amb_role));
}

static void test_groups_of_rows_stand_together(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i + 2 < count; i++) {
        const char *dot = strchr(keys[i].path, '.');
        size_t len = dot == NULL ? strlen(keys[i].path) : (size_t)(dot - keys[i].path);
        bool left = false;
        for (size_t j = i + 1; j < count; j++) {
            bool same = strncmp(keys[j].path, keys[i].path, len) == 0 && keys[j].path[len] == '.';
            assert_false(same && left);
            left = left || !same;
        }
    }
}

static void test_variable_names_are_unique(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char a[AMB_CONFIG_PATH_MAX + 16], b[AMB_CONFIG_PATH_MAX + 16];
        amb_config_env_name(keys[i].path, a, sizeof(a));
        for (size_t j = 0; j < i; j++) {
            amb_config_env_name(keys[j].path, b, sizeof(b));
            assert_string_not_equal(a, b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_well_formed),
        cmocka_unit_test(test_groups_of_rows_stand_together),
        cmocka_unit_test(test_variable_names_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
