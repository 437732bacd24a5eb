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

/* A text that does not fit is cut, where there is room for some of it; a number never is. */
static void test_table_cuts_the_first_text_that_does_not_fit(void **state)
{
    (void)state;
    const struct amb_table_form form = {.width = 30};
    assert_form("{\"rows\":[{\"n\":12345,\"line\":\"0123456789012345678901234567890\",\"more\":1},"
                "{\"n\":1,\"line\":\"short\",\"more\":2}]}",
                &form, 1,
                "    n  line\n"
                "12345  01234567890123456789...\n"
                "    1  short\n");
    /* Characters, not bytes. */
    assert_form("{\"rows\":[{\"n\":1,\"line\":"
                "\"\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac"
                "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac"
                "\u20ac\u20ac\u20ac"
                "\u20ac\"}]}",
                &form, 0,
                "n  line\n"
                "1  "
                "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac"
                "\u20ac\u20ac\u20ac"
                "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\n");
    assert_form("{\"rows\":[{\"name\":\"0123456789012\",\"line\":\"0123456789012345678\"}]}", &form,
                1,
                "name\n"
                "0123456789012\n");
}

/* A newer broker's columns, by the units of its answer. */
static void test_table_takes_units_of_the_answer(void **state)
{
    (void)state;
    json_t *units = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "volume", "bytes", "speed",
                              "bytes/s", "span", "ns", "age", "s", "born", "unix_s", "rss_bytes",
                              "messages", "odd", "furlongs");
    const struct amb_table_form form = {.units = units};
    assert_form("{\"volume\":1572864,\"speed\":2048,\"span\":1250000,\"age\":11100,"
                "\"born\":1795801304,\"rss_bytes\":4096,\"odd\":4096,\"other_ns\":2000}",
                &form, 0,
                "volume     1.50 MiB\n"
                "speed      2.00 KiB/s\n"
                "span       1.25 ms\n"
                "age        3 h 5 min\n"
                "born       2026-11-27T17:41:44Z\n"
                "rss_bytes  4096\n"
                "odd        4096\n"
                "other_ns   2.00 us\n");
    assert_form("{\"rows\":[{\"volume\":1024,\"born\":0},{\"volume\":-5,\"born\":1e300}]}", &form,
                0,
                "  volume  born\n"
                "1.00 KiB     -\n"
                "    -5 B     -\n");
    json_decref(units);
}

static void test_table_takes_the_unit_of_a_row(void **state)
{
    (void)state;
    json_t *units = json_pack("{s:s}", "value", "@unit");
    const struct amb_table_form form = {.units = units};
    assert_form("{\"rows\":[{\"value\":1024,\"unit\":\"bytes\"},{\"value\":1024,\"unit\":\"\"},"
                "{\"value\":1024,\"unit\":3},{\"value\":1024}]}",
                &form, 0,
                "   value  unit\n"
                "1.00 KiB  bytes\n"
                "    1024  -\n"
                "    1024  3\n"
                "    1024  -\n");
    json_decref(units);
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
        cmocka_unit_test(test_table_cuts_the_first_text_that_does_not_fit),
        cmocka_unit_test(test_table_takes_units_of_the_answer),
        cmocka_unit_test(test_table_takes_the_unit_of_a_row),
        cmocka_unit_test(test_table_texts_cannot_drive_the_terminal),
        cmocka_unit_test(test_table_aligns_by_characters),
        cmocka_unit_test(test_table_ends_no_line_with_blanks),
        cmocka_unit_test(test_table_takes_any_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
