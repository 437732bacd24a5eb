/* SPDX-License-Identifier: Apache-2.0 */
/* The table itself, beside the broker's: one file holds both. */
#include "client/config/client_schema.h"

#include "broker/config/config_schema.h"
#include "client/config/client_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct amb_config_key *find(const struct amb_config_schema *schema, const char *path)
{
    return amb_config_key_find(schema->keys, schema->count, path);
}

static void test_every_row_is_well_formed(void **state)
{
    (void)state;
    const struct amb_config_schema *schema = &amb_client_schema;
    for (size_t i = 0; i < schema->count; i++) {
        const struct amb_config_key *key = &schema->keys[i];
        assert_true(strlen(key->path) < AMB_CONFIG_PATH_MAX);
        assert_int_equal(key->help[strlen(key->help) - 1], '.');
        assert_ptr_equal(find(schema, key->path), key);
        if (!amb_config_has_field(key)) {
            assert_true(key->elsewhere);
            continue;
        }
        assert_true(key->offset < sizeof(struct amb_client_config));
        assert_non_null(key->default_text);
        assert_true(key->min <= key->max);
        if (key->type == AMB_CONFIG_WORD) {
            assert_non_null(amb_config_word_find(key->words, key->default_text));
        }
    }
}

/* Of a key of the broker, also of one that comes later, this side must at least know the name. */
static void test_every_key_of_the_broker_is_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < amb_broker_schema.count; i++) {
        const char *path = amb_broker_schema.keys[i].path;
        if (find(&amb_broker_schema, path)->elsewhere) {
            continue;
        }
        if (find(&amb_client_schema, path) == NULL) {
            fail_msg("client/config/client_schema.c has no row %s", path);
        }
    }
    for (size_t i = 0; i < amb_client_schema.count; i++) {
        const char *path = amb_client_schema.keys[i].path;
        if (find(&amb_broker_schema, path) == NULL &&
            !amb_config_is_group(amb_broker_schema.keys, amb_broker_schema.count, path)) {
            fail_msg("broker/config/config_schema.c has no row %s", path);
        }
    }
}

/* A key that both roles look at means the same. */
static void test_keys_of_both_roles_take_the_same_values(void **state)
{
    (void)state;
    size_t both = 0;
    for (size_t i = 0; i < amb_client_schema.count; i++) {
        const struct amb_config_key *here = &amb_client_schema.keys[i];
        const struct amb_config_key *there = find(&amb_broker_schema, here->path);
        if (there == NULL || !amb_config_has_field(here) || there->elsewhere) {
            continue;
        }
        char allowed[320], other[320];
        amb_config_allowed(here, allowed, sizeof(allowed));
        amb_config_allowed(there, other, sizeof(other));
        assert_string_equal(allowed, other);
        assert_string_equal(here->default_text, there->default_text);
        assert_int_equal(here->type, there->type);
        both++;
    }
    assert_true(both >= 11);
}

static void test_variables_are_of_known_keys(void **state)
{
    (void)state;
    size_t count = 0;
    for (size_t i = 0; i < amb_client_schema.count; i++) {
        count += amb_client_variable(amb_client_schema.keys[i].path) != NULL;
    }
    assert_int_equal(count, 8);
    assert_string_equal(amb_client_variable("client.url"), "AMB_URL");
    assert_string_equal(amb_client_variable("client.key"), "AMB_KEY");
    assert_null(amb_client_variable("client.name"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_well_formed),
        cmocka_unit_test(test_every_key_of_the_broker_is_known),
        cmocka_unit_test(test_keys_of_both_roles_take_the_same_values),
        cmocka_unit_test(test_variables_are_of_known_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
