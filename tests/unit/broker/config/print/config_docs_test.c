/* SPDX-License-Identifier: Apache-2.0 */
/* The generated documents: the example file is legal and is the defaults; every key is there. */
#include "broker/config/config_schema.h"
#include "broker/config/print/config_docs.h"
#include "broker/config/print/config_print.h"
#include "tests/support/config_try.h"

static char *print(void (*printer)(FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    printer(stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void test_the_example_is_the_defaults(void **state)
{
    (void)state;
    char restart[256], live[256];
    char *text = print(amb_config_print_example);
    struct amb_config *example = try_accept(text), *defaults = try_accept("");
    amb_config_diff(example, defaults, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "");
    amb_config_destroy(&example);
    amb_config_destroy(&defaults);
    free(text);
}

/* Without its marks a group that is there twice would be two keys of one name. */
static void test_groups_of_elements_are_there_once(void **state)
{
    (void)state;
    static const char *const groups[] = {"# publish = {", "# subscribe = {", "# retain = {"};
    char *text = print(amb_config_print_example);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        const char *first = strstr(text, groups[i]);
        assert_non_null(first);
        assert_null(strstr(first + 1, groups[i]));
    }
    free(text);
}

static void test_the_reference_has_every_key(void **state)
{
    (void)state;
    char *text = print(amb_config_print_reference);
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char cell[AMB_CONFIG_PATH_MAX + 8];
        (void)snprintf(cell, sizeof(cell), "\n| `%s` | ", keys[i].path);
        assert_non_null(strstr(text, cell));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_example_is_the_defaults),
        cmocka_unit_test(test_groups_of_elements_are_there_once),
        cmocka_unit_test(test_the_reference_has_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
