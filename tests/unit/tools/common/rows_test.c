/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/rows, by JSON texts and the exact text they become. */
#include "tools/common/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum form {
    JSONL,
    CSV,
    CSV_BARE,
};

static void prints(const char *json, const char *columns, enum form form, const char *expected)
{
    char *text = NULL, why[400] = "";
    size_t len;
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    json_t *rows = amb_rows_of(value);
    FILE *out = open_memstream(&text, &len);
    assert_true(rows != NULL && out != NULL);
    json_t *picked =
        columns == NULL ? json_incref(rows) : amb_rows_pick(rows, columns, why, sizeof(why));
    assert_non_null(picked);
    if (form == JSONL) {
        amb_rows_print_jsonl(picked, out);
    } else {
        amb_rows_print_csv(picked, form == CSV, out);
    }
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
    json_decref(picked);
    json_decref(rows);
    json_decref(value);
}

static void test_rows_are_the_only_array(void **state)
{
    (void)state;
    prints("{\"topics\":[{\"a\":1},{\"b\":\"x\"}],\"not_shown\":3}", NULL, JSONL,
           "{\"a\":1}\n{\"b\":\"x\"}\n");
    prints("[{\"a\":{\"b\":{\"c\":1}}}]", NULL, JSONL, "{\"a.b.c\":1}\n");
    prints("{\"pid\":1,\"of\":{\"x\":2}}", NULL, JSONL, "{\"pid\":1,\"of.x\":2}\n");
    prints("{\"topics\":[]}", NULL, JSONL, "");
}

static void test_csv_has_the_union_of_keys(void **state)
{
    (void)state;
    prints("[{\"a\":1,\"b\":null},{\"c\":2.5,\"a\":true}]", NULL, CSV, "a,b,c\n1,,\ntrue,,2.5\n");
    prints("[{\"a\":1}]", NULL, CSV_BARE, "1\n");
    prints("[]", NULL, CSV, "");
}

static void test_csv_quotes_and_shows_what_strangers_write(void **state)
{
    (void)state;
    prints("[{\"a\":\"x,y\",\"b\":\"say \\\"no\\\"\",\"c\":\"<script>\",\"d\":[1,2]}]", NULL,
           CSV_BARE, "\"x,y\",\"say \"\"no\"\"\",<script>,\"[1,2]\"\n");
    prints("[{\"a\":\"two\\nlines\",\"b\":\"\\u001b[2J\"}]", NULL, CSV_BARE,
           "\"two\nlines\",.[2J\n");
}

static void test_csv_has_no_formulas(void **state)
{
    (void)state;
    prints("[{\"a\":\"=1+1\",\"b\":\"@x\",\"c\":\"+x\",\"d\":\"-x!A1\"}]", NULL, CSV_BARE,
           "'=1+1,'@x,'+x,'-x!A1\n");
    prints("[{\"=a\":\"=\\\"x\\\",1\"},{\"=a\":\"\\t=1\"},{\"=a\":\"\\r=1\"}]", NULL, CSV,
           "'=a\n\"'=\"\"x\"\",1\"\n'\t=1\n\"'.=1\"\n");
    /* Numbers stay numbers, and one sign is none. */
    prints("[{\"a\":-1,\"b\":\"-1\",\"c\":\"+2.5e3\",\"d\":\"-\",\"e\":\"x=1\"}]", NULL, CSV_BARE,
           "-1,-1,+2.5e3,-,x=1\n");
    prints("[{\"a\":\"-1+cmd\",\"b\":\"=\",\"c\":\"\",\"d\":\"-nan\"}]", NULL, CSV_BARE,
           "'-1+cmd,'=,,'-nan\n");
    /* Lines of JSON have each text as it is. */
    prints("[{\"a\":\"=1\"}]", NULL, JSONL, "{\"a\":\"=1\"}\n");
}

static void test_columns_are_picked_in_their_order(void **state)
{
    (void)state;
    prints("[{\"a\":1,\"b\":2,\"c\":3},{\"a\":4}]", "c,a", CSV, "c,a\n3,1\n,4\n");
    prints("{\"topics\":[]}", "any", CSV, ""); /* Nobody knows the columns. */
}

static void test_an_unknown_column_is_told_with_the_others(void **state)
{
    (void)state;
    char why[400];
    json_t *rows = json_loads("[{\"a\":1,\"b\":2}]", 0, NULL);
    assert_null(amb_rows_pick(rows, "a,x", why, sizeof(why)));
    assert_string_equal(why, "there is no x; there are a, b");
    assert_null(amb_rows_pick(rows, "x", why, 12)); /* It is cut, not written behind. */
    assert_string_equal(why, "there is no");
    json_decref(rows);
}

static void test_texts_and_numbers_of_a_row(void **state)
{
    (void)state;
    json_t *row = json_loads("{\"a\":\"x\",\"b\":7,\"c\":-7,\"d\":1.5}", 0, NULL);
    assert_string_equal(amb_rows_text(row, "a"), "x");
    assert_string_equal(amb_rows_text(row, "b"), "");
    assert_string_equal(amb_rows_text(NULL, "a"), "");
    assert_int_equal(amb_rows_number(row, "b"), 7);
    assert_int_equal(amb_rows_number(row, "a") + amb_rows_number(row, "c"), 0);
    assert_int_equal(amb_rows_number(row, "d") + amb_rows_number(NULL, "b"), 0);
    json_decref(row);
}

static void test_something_else_has_no_rows(void **state)
{
    (void)state;
    json_t *value = json_loads("[1,2]", 0, NULL);
    assert_null(amb_rows_of(value));
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_the_only_array),
        cmocka_unit_test(test_csv_has_the_union_of_keys),
        cmocka_unit_test(test_csv_quotes_and_shows_what_strangers_write),
        cmocka_unit_test(test_csv_has_no_formulas),
        cmocka_unit_test(test_columns_are_picked_in_their_order),
        cmocka_unit_test(test_an_unknown_column_is_told_with_the_others),
        cmocka_unit_test(test_texts_and_numbers_of_a_row),
        cmocka_unit_test(test_something_else_has_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
