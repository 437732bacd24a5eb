/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text, on a schema of this test's own; whole ones: broker/config/print. */
#include "wire/config/config_format.h"
#include "wire/config/config_layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tiny {
    struct amb_config_strings names;
    struct amb_config_pairs pairs;
    int64_t time_ns;
    uint64_t size;
    const char *secret;
    bool is_open;
};

static const struct amb_config_word words[] = {{"auto", 0, false}, {NULL, 0, false}};
static const struct amb_config_key keys[] = {
    {.path = "names",
     .type = AMB_CONFIG_STRINGS,
     .offset = offsetof(struct tiny, names),
     .default_text = "auto",
     .words = words,
     .max = 4,
     .help = "Names."},
    {.path = "group.pairs",
     .type = AMB_CONFIG_PAIRS,
     .offset = offsetof(struct tiny, pairs),
     .default_text = "",
     .max = 4,
     .help = "Pairs."},
    {.path = "group.time",
     .type = AMB_CONFIG_TIME,
     .offset = offsetof(struct tiny, time_ns),
     .default_text = "1500ms",
     .max = UINT64_C(10000000000),
     .help = "A time."},
    {.path = "group.size",
     .type = AMB_CONFIG_SIZE,
     .offset = offsetof(struct tiny, size),
     .default_text = "64K",
     .max = UINT64_C(1) << 30,
     .help = "A size."},
    {.path = "group.secret",
     .type = AMB_CONFIG_TEXT,
     .secret = true,
     .offset = offsetof(struct tiny, secret),
     .default_text = "",
     .max = 8,
     .help = "A secret."},
    {.path = "group.is_open",
     .type = AMB_CONFIG_BOOL,
     .offset = offsetof(struct tiny, is_open),
     .default_text = "true",
     .help = "Yes or no."},
};
static const struct amb_config_schema schema = {keys, 6, "tiny --keys"};

static void expect_text(const char *text, const char *expected)
{
    struct tiny tiny;
    struct amb_config_store store = {.schema = &schema};
    char error[AMB_CONFIG_ERROR_MAX] = "", *printed = NULL;
    size_t size;
    struct amb_config_build build = {
        .store = &store, .config = &tiny, .error = error, .error_size = sizeof(error)};
    assert_int_equal(amb_config_defaults_apply(&build), AMB_OK);
    if (amb_config_file_apply(&build, NULL, text, strlen(text)) != AMB_OK) {
        fail_msg("%s", error);
    }
    FILE *stream = open_memstream(&printed, &size);
    assert_non_null(stream);
    amb_config_rows_print(&store, &tiny, stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(printed, expected);
    free(printed);
    amb_config_store_fini(&store);
}

static void test_each_value_has_its_origin(void **state)
{
    (void)state;
    expect_text("", "names = \"auto\"; # default\n"
                    "group = {\n"
                    "    pairs = { }; # default\n"
                    "    time = \"1500ms\"; # default\n"
                    "    size = \"64K\"; # default\n"
                    "    secret = \"\"; # default\n"
                    "    is_open = true; # default\n"
                    "};\n");
}

static void test_texts_are_quoted_and_secrets_hidden(void **state)
{
    (void)state;
    expect_text("names = ( \"a\", \"b\" );\n"
                "group = { pairs = { A = \"x\\\"\\n\"; };\n"
                "  secret = \"s3cret\"; is_open = false; };",
                "names = ( \"a\", \"b\" ); # configuration:1\n"
                "group = {\n"
                "    pairs = { A = \"x\\\"\\x0a\"; }; # configuration:2\n"
                "    time = \"1500ms\"; # default\n"
                "    size = \"64K\"; # default\n"
                "    secret = \"\"; # configuration:3, not shown\n"
                "    is_open = false; # configuration:3\n"
                "};\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_value_has_its_origin),
        cmocka_unit_test(test_texts_are_quoted_and_secrets_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
