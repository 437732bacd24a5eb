/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of one element of `topics`: each is well-formed, and has a field of its own. */
#include "broker/config/config_schema_rule.h"

#include "tests/support/config_rows.h"

static void test_every_row_is_well_formed(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_rule_keys(&count);
    assert_true(count > 0);
    config_rows_check(keys, count, sizeof(struct amb_topic_rule));
}

static void test_no_two_rows_have_one_field(void **state)
{
    (void)state;
    size_t count;
    const struct amb_config_key *keys = amb_config_rule_keys(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            bool both = amb_config_has_field(&keys[i]) && amb_config_has_field(&keys[j]);
            assert_false(both && keys[i].offset == keys[j].offset);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_well_formed),
        cmocka_unit_test(test_no_two_rows_have_one_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
