/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools/common/shown: what strangers send does not drive the terminal.
 */
#include "tools/common/shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static void check(const char *bytes, size_t len, bool keeps_lines, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    amb_shown_put(out, bytes, len, keeps_lines);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

#define CHECK(bytes, keeps_lines, expected) check(bytes, sizeof(bytes) - 1, keeps_lines, expected)

static void test_text_stays_as_it_is(void **state)
{
    (void)state;
    CHECK("plain ~ text", false, "plain ~ text");
    CHECK("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", false, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    CHECK("a\tb\nc", true, "a\tb\nc");
    CHECK("", true, "");
}

static void test_what_drives_a_terminal_is_not_shown(void **state)
{
    (void)state;
    CHECK("\x1b[2J", true, ".[2J");
    CHECK("\x1b]0;title\a", false, ".]0;title.");
    CHECK("a\nb\tc\rd\x7f", false, "a.b.c.d.");
    CHECK("\xc2\x9b"
          "31m",
          true, ".31m"); /* CSI, as UTF-8 spells it */
    CHECK("\x9b"
          "31m",
          true, ".31m"); /* ... and as one byte */
    check("a\0b", 3, true, "a.b");
}

static void test_what_is_no_utf_8_is_not_shown(void **state)
{
    (void)state;
    CHECK("\xc3", false, ".");
    CHECK("\xc3(", false, ".(");
    CHECK("\xc0\xaf\xff", false, "...");
    CHECK("\xe2\x82", false, "..");
    CHECK("\xe0\x80\xaf\xf0\x80\x80\xaf", false, "......."); /* '/', spelled longer */
    CHECK("\xe0\xa0\x80\xed\x9f\xbf", false, "\xe0\xa0\x80\xed\x9f\xbf");
    CHECK("\xed\xa0\x80", false, "..."); /* a half of UTF-16 */
    CHECK("\xf4\x8f\xbf\xbf\xf4\x90\x80\x80", false, "\xf4\x8f\xbf\xbf....");
}

static void cleans(const char *text, const char *expected)
{
    char copy[64];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    amb_shown_clean(copy);
    assert_string_equal(copy, expected);
}

static void test_a_sentence_is_cleaned_in_place(void **state)
{
    (void)state;
    cleans("", "");
    cleans("plain ~ \xc3\xa9\xe2\x82\xac", "plain ~ \xc3\xa9\xe2\x82\xac");
    cleans("\x1b[2J\n\t\x7f", "?[2J???");
    cleans("\xc2\x9b"
           "2J \x9b"
           "2J",
           "??2J ?2J"); /* CSI, in two ways */
    cleans("cut \xe2\x82", "cut ??");
}

static void test_text_and_bytes(void **state)
{
    (void)state;
    assert_true(amb_shown_is_text("", 0));
    assert_true(amb_shown_is_text("a\r\n\t\xe2\x82\xac", 7));
    assert_false(amb_shown_is_text("\0", 1));
    assert_false(amb_shown_is_text("\x7f", 1));
    assert_false(amb_shown_is_text("\xc2\x9b", 2));
    assert_false(amb_shown_is_text("\xe2\x82", 2));
    assert_int_equal(amb_shown_cut("abc", 3, 5), 3);
    assert_int_equal(amb_shown_cut("abc", 3, 2), 2);
    assert_int_equal(amb_shown_cut("\xe2\x82\xacz", 4, 3), 3);
    assert_int_equal(amb_shown_cut("\xe2\x82\xacz", 4, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_stays_as_it_is),
        cmocka_unit_test(test_what_drives_a_terminal_is_not_shown),
        cmocka_unit_test(test_what_is_no_utf_8_is_not_shown),
        cmocka_unit_test(test_a_sentence_is_cleaned_in_place),
        cmocka_unit_test(test_text_and_bytes),
    };
    return cmocka_run_group_tests_name("tools/common/shown", tests, NULL, NULL);
}
