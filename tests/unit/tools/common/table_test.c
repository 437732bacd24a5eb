/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/table, by JSON texts and the exact text they become. */
#include "tools/common/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* form NULL: as amb_table_print has it. */
static void assert_form(const char *json, const struct amb_table_form *form, size_t hidden,
                        const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    if (form == NULL) {
        amb_table_print(value, out);
    } else {
        assert_int_equal(amb_table_print_as(value, form, out), hidden);
    }
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
    json_decref(value);
}

static void assert_table(const char *json, const char *expected)
{
    assert_form(json, NULL, 0, expected);
}

static void test_table_object_is_key_and_value_lines(void **state)
{
    (void)state;
    assert_table("{\"version\":\"0.1.0\",\"pid\":42,\"up\":true,\"gone\":null,\"empty\":\"\"}",
                 "version  0.1.0\n"
                 "pid      42\n"
                 "up       yes\n"
                 "gone     -\n"
                 "empty    -\n");
}

static void test_table_inner_objects_are_dotted(void **state)
{
    (void)state;
    assert_table("{\"a\":{\"b\":{\"c\":1}},\"list\":[\"x\",2]}", "a.b.c  1\n"
                                                                 "list   x,2\n");
}

static void test_table_array_has_the_union_of_keys(void **state)
{
    (void)state;
    assert_table("{\"topics\":[{\"name\":\"a\",\"msgs\":1},{\"name\":\"long.name\",\"lost\":12}]}",
                 "name       msgs  lost\n"
                 "a             1     -\n"
                 "long.name     -    12\n");
}

static void test_table_empty_array_says_so(void **state)
{
    (void)state;
    assert_table("{\"topics\":[]}", "(none)\n");
}

static void test_table_scales_bytes_and_times(void **state)
{
    (void)state;
    assert_table("{\"rss_bytes\":67108864,\"uptime_ns\":1500000000,\"count\":67108864}",
                 "rss_bytes  64.0 MiB\n"
                 "uptime_ns  1.50 s\n"
                 "count      67108864\n");
}

static void test_table_texts_cannot_drive_the_terminal(void **state)
{
    (void)state;
    assert_table("{\"clients\":[{\"name\":\"\\u001b[2J\\u009bx\\nroot\\u007f\"}]}",
                 "name\n"
                 "\\x1b[2J\\xc2\\x9bx\\x0aroot\\x7f\n");
    assert_table("{\"a\\u001bb\":[{\"c\\u0007d\":1}],\"e\\nf\":2}", "e\\x0af  2\n"
                                                                    "\na.b:\n"
                                                                    "c\\x07d\n"
                                                                    "     1\n");
}

static void test_table_aligns_by_characters(void **state)
{
    (void)state;
    assert_table("[{\"n\":\"\xc3\xa4\xc3\xb6\",\"v\":1},{\"n\":\"abc\",\"v\":22}]",
                 "n     v\n"
                 "\xc3\xa4\xc3\xb6    1\n"
                 "abc  22\n");
    /* Two columns of a terminal each. */
    assert_table("[{\"n\":\"\xe6\x97\xa5\",\"v\":1},{\"n\":\"abcd\",\"v\":22}]",
                 "n      v\n"
                 "\xe6\x97\xa5     1\n"
                 "abcd  22\n");
}

static void test_table_ends_no_line_with_blanks(void **state)
{
    (void)state;
    assert_table("[{\"n\":1,\"text\":\"x\"},{\"n\":22,\"text\":\"a long one\"}]",
                 " n  text\n"
                 " 1  x\n"
                 "22  a long one\n");
}

static void test_table_takes_any_json(void **state)
{
    (void)state;
    assert_table("3", "3\n");
    assert_table("\"text\"", "text\n");
    assert_table("[1,2]", "1,2\n");
    assert_table("{}", "");
}

static void test_table_has_the_columns_that_fit(void **state)
{
    (void)state;
    static const struct {
        size_t width, hidden;
        const char *text;
    } cases[] = {
        {0, 0, "name  much  c\nlong  1234  x\n"},
        {13, 0, "name  much  c\nlong  1234  x\n"},
        {12, 1, "name  much\nlong  1234\n"},
        {3, 2, "name\nlong\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct amb_table_form form = {.width = cases[i].width};
        assert_form("[{\"name\":\"long\",\"much\":1234,\"c\":\"x\"}]", &form, cases[i].hidden,
                    cases[i].text);
    }
}

static void test_table_may_have_no_head(void **state)
{
    (void)state;
    const struct amb_table_form form = {.has_no_head = true};
    assert_form("[{\"a\":1}]", &form, 0, "1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_has_the_columns_that_fit),
        cmocka_unit_test(test_table_may_have_no_head),
        cmocka_unit_test(test_table_object_is_key_and_value_lines),
        cmocka_unit_test(test_table_inner_objects_are_dotted),
        cmocka_unit_test(test_table_array_has_the_union_of_keys),
        cmocka_unit_test(test_table_empty_array_says_so),
        cmocka_unit_test(test_table_scales_bytes_and_times),
        cmocka_unit_test(test_table_texts_cannot_drive_the_terminal),
        cmocka_unit_test(test_table_aligns_by_characters),
        cmocka_unit_test(test_table_ends_no_line_with_blanks),
        cmocka_unit_test(test_table_takes_any_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
