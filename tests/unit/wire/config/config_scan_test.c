/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that libconfig would misread. */
#include "tests/support/config_try.h"

static void test_large_numbers_need_an_l(void **state)
{
    (void)state;
    try_refuse("\nmemory = { host = { size = 5368709120; }; };\n",
               "configuration:2: size: a large number needs an L behind it, or is a text as \"5G\" "
               "(got 5368709120, allowed up to 2147483647 without)");
    struct amb_config *config = try_accept("memory = { host = { size = 5368709120L; }; };");
    assert_int_equal(config->memory.host.size, UINT64_C(5) << 30);
    amb_config_destroy(&config);
    config = try_accept("memory = { host = { size = 0x140000000L; }; };");
    assert_int_equal(config->memory.host.size, UINT64_C(5) << 30);
    amb_config_destroy(&config);
    config = try_accept("memory = { host = { size = 1073741824; }; };");
    assert_int_equal(config->memory.host.size, UINT64_C(1) << 30);
    amb_config_destroy(&config);
    struct amb_config_source source = try_source("limits = { window = 0x100010000; };");
    try_refuse_with(&source, "configuration:1: window: a large number needs an L");
    source = try_source("limits = { window = 99999999999999999999999; };");
    try_refuse_with(&source, "a large number needs an L");
    source = try_source("limits = { window = 99999999999999999999999L; };");
    try_refuse_with(&source, "limits.window: out of range");
}

static void test_options_and_lists_are_looked_at_too(void **state)
{
    (void)state;
    struct amb_config_source source = try_source(NULL);
    static const char *const options[] = {"topics=( { match = \"a\"; max_bytes = 4295032832; } )"};
    source.options = options;
    source.option_count = 1;
    try_refuse_with(&source, "max_bytes: a large number needs an L");
}

static void test_numbers_in_texts_names_and_comments_are_none(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("# 9999999999\n// 9999999999\n/* 9999999999\n \" */\n"
                                           "server = { name = \"a\\\"9999999999\"; };\n"
                                           "topics = ( { match = \"t9999999999\"; } );\n"
                                           "limits = { window = \"1048576\"; };\n");
    assert_string_equal(config->server.name, "a\"9999999999");
    amb_config_destroy(&config);
    struct amb_config_source source = try_source("limits9999999999 = 1.5e10;");
    try_refuse_with(&source, "limits9999999999: unknown key");
}

/* The key of what follows a comment is the one before it. */
static void test_a_comment_may_stand_between_key_and_value(void **state)
{
    (void)state;
    struct amb_config_source source = try_source("limits = { window = /* big */ 5368709120; };");
    try_refuse_with(&source, "configuration:1: window: a large number needs an L");
    struct amb_config *config = try_accept("limits = { window = /**/ 1048576 /* ** */; };");
    assert_int_equal(config->limits.window, 1048576);
    amb_config_destroy(&config);
}

static void test_a_text_has_no_nul(void **state)
{
    (void)state;
    try_refuse("auth = {\n  token = \"ab\\x00cd\"; };",
               "configuration:2: token: has \\x00 in a text, which would end it there");
    struct amb_config *config = try_accept("server = { name = \"ab\\x41cd\"; };");
    assert_string_equal(config->server.name, "abAcd");
    amb_config_destroy(&config);
    config = try_accept("server = { name = \"ab\\\\x00\"; };");
    assert_string_equal(config->server.name, "ab\\x00");
    amb_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_numbers_need_an_l),
        cmocka_unit_test(test_options_and_lists_are_looked_at_too),
        cmocka_unit_test(test_numbers_in_texts_names_and_comments_are_none),
        cmocka_unit_test(test_a_comment_may_stand_between_key_and_value),
        cmocka_unit_test(test_a_text_has_no_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
