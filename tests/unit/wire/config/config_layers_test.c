/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, on a schema of this test's own: any role can have one. */
#include "wire/config/config_layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tiny {
    uint32_t workers;
    const char *name;
};

static const struct amb_config_key keys[] = {
    {.path = "server.workers",
     .type = AMB_CONFIG_COUNT,
     .offset = offsetof(struct tiny, workers),
     .default_text = "3",
     .max = 9,
     .help = "A number."},
    {.path = "server.name",
     .type = AMB_CONFIG_TEXT,
     .offset = offsetof(struct tiny, name),
     .default_text = "",
     .max = 8,
     .help = "A name."},
    {.path = "server.later", .not_yet = true, .example_value = "1", .help = "None yet."},
};
static const struct amb_config_schema schema = {keys, 3, "tiny --keys"};

struct made {
    struct tiny tiny;
    struct amb_config_store store;
    char error[AMB_CONFIG_ERROR_MAX];
    struct amb_config_build build;
};

static void begin(struct made *made)
{
    memset(made, 0, sizeof(*made));
    made->store.schema = &schema;
    made->build = (struct amb_config_build){.store = &made->store,
                                            .config = &made->tiny,
                                            .error = made->error,
                                            .error_size = sizeof(made->error)};
    assert_int_equal(amb_config_defaults_apply(&made->build), AMB_OK);
}

static void expect_place(const struct made *made, const char *path, const char *expected)
{
    char where[128];
    amb_config_place_format(amb_config_place_of(&made->store, path), where, sizeof(where));
    assert_string_equal(where, expected);
}

static void test_each_layer_covers_those_below(void **state)
{
    (void)state;
    struct made made;
    static const char text[] = "server = {\n  workers = 4; };";
    static const struct amb_config_place place = {AMB_CONFIG_ORIGIN_ENVIRONMENT, "TINY_NAME", 0};
    begin(&made);
    assert_int_equal(made.tiny.workers, 3);
    assert_string_equal(made.tiny.name, "");
    expect_place(&made, "server.workers", "default");
    assert_int_equal(amb_config_file_apply(&made.build, NULL, text, sizeof(text) - 1), AMB_OK);
    assert_int_equal(made.tiny.workers, 4);
    expect_place(&made, "server.workers", "configuration:2");
    expect_place(&made, "server.name", "default");
    assert_int_equal(amb_config_text_set(&made.build, "server.name", "a", &place), AMB_OK);
    assert_string_equal(made.tiny.name, "a");
    expect_place(&made, "server.name", "environment TINY_NAME");
    amb_config_store_fini(&made.store);
}

static void expect_refusal(const char *text, const char *error)
{
    struct made made;
    begin(&made);
    assert_int_equal(amb_config_file_apply(&made.build, NULL, text, strlen(text)), AMB_EINVAL);
    assert_string_equal(made.error, error);
    amb_config_store_fini(&made.store);
}

static void test_errors_are_of_this_schema(void **state)
{
    (void)state;
    expect_refusal("limits = { };", "configuration:1: limits: unknown key (all keys: tiny --keys)");
    expect_refusal("server = { wokers = 1; };",
                   "configuration:1: server.wokers: unknown key (did you mean server.workers?)");
    expect_refusal("server = { later = 1; };",
                   "configuration:1: server.later: not yet supported in this release");
    expect_refusal("\nserver = { workers = 10; };",
                   "configuration:2: server.workers: out of range (got 10, allowed a number, 0 to "
                   "9)");
}

static void test_a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct made made;
    begin(&made);
    assert_int_equal(amb_config_file_apply(&made.build, "/nowhere/tiny.conf", NULL, 0), AMB_EINVAL);
    assert_string_equal(made.error,
                        "/nowhere/tiny.conf: cannot be read: No such file or directory");
    assert_int_equal(made.tiny.workers, 3);
    amb_config_store_fini(&made.store);
}

static void test_an_empty_variable_is_none(void **state)
{
    (void)state;
    static const char *const environment[] = {"A=", "AB=1", "B=x=y", NULL};
    assert_null(amb_config_variable_find(environment, "A"));
    assert_string_equal(amb_config_variable_find(environment, "AB"), "1");
    assert_string_equal(amb_config_variable_find(environment, "B"), "x=y");
    assert_null(amb_config_variable_find(environment, "C"));
    assert_null(amb_config_variable_find(NULL, "A"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_layer_covers_those_below),
        cmocka_unit_test(test_errors_are_of_this_schema),
        cmocka_unit_test(test_a_file_that_is_not_there_is_named),
        cmocka_unit_test(test_an_empty_variable_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
