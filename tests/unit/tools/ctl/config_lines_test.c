/* SPDX-License-Identifier: Apache-2.0 */
/* A printed configuration, taken apart. */
#include "tools/ctl/config_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect(struct amb_config_lines *lines, const char *path, const char *value,
                   const char *origin)
{
    struct amb_config_line line;
    assert_true(amb_config_lines_next(lines, &line));
    assert_string_equal(line.path, path);
    assert_int_equal(line.value_len, strlen(value));
    assert_memory_equal(line.value, value, line.value_len);
    assert_int_equal(line.origin_len, strlen(origin));
    assert_memory_equal(line.origin, origin, line.origin_len);
}

static void test_groups_are_in_the_names(void **state)
{
    (void)state;
    struct amb_config_line line;
    struct amb_config_lines lines = {.at = "a = 1; # default\n"
                                           "b = {\n    c = \"x\"; # f.conf:2\n"
                                           "    d = {\n        e = true; # environment E\n    };\n"
                                           "    f = 5; # default\n};\n"
                                           "g = ( ); # -o g\n"};
    expect(&lines, "a", "1", "default");
    expect(&lines, "b.c", "\"x\"", "f.conf:2");
    expect(&lines, "b.d.e", "true", "environment E");
    expect(&lines, "b.f", "5", "default");
    expect(&lines, "g", "( )", "-o g");
    assert_false(amb_config_lines_next(&lines, &line));
    assert_string_equal(lines.at, "");
}

static void test_values_may_have_marks_and_lines(void **state)
{
    (void)state;
    struct amb_config_lines lines = {
        .at = "a = \"x; # y\\\"; # z\"; # f; # g:1\n"
              "p = { A = \"1\"; B = \"2\"; }; # default\n"
              "t = (\n    { match = \"a\"; retain = { keys = 0; }; },\n    { match = \"b\"; }\n); "
              "# f:9\n"
              "s = \"\"; # f:3, not shown\n"};
    expect(&lines, "a", "\"x; # y\\\"; # z\"", "f; # g:1");
    expect(&lines, "p", "{ A = \"1\"; B = \"2\"; }", "default");
    expect(&lines, "t",
           "(\n    { match = \"a\"; retain = { keys = 0; }; },\n    { match = \"b\"; }\n)", "f:9");
    expect(&lines, "s", "\"\"", "f:3, not shown");
}

static void test_other_texts_end_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "nonsense", "a = 1;\n", "a = \"open",
                                        "a\n", "= 5; # x", "};"};
    struct amb_config_line line;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct amb_config_lines lines = {.at = texts[i]};
        assert_false(amb_config_lines_next(&lines, &line));
    }
    char text[400];
    memset(text, 'n', sizeof(text));
    memcpy(text + 300, " = 1; # x", sizeof(" = 1; # x"));
    struct amb_config_lines lines = {.at = text};
    assert_false(amb_config_lines_next(&lines, &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_are_in_the_names),
        cmocka_unit_test(test_values_may_have_marks_and_lines),
        cmocka_unit_test(test_other_texts_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
