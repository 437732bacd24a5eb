/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/top/cell: texts of strangers, and numbers. */
#include "tools/ctl/top/cell.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WIDTH 40u

static void check(const char *text, size_t width, const char *shown, size_t places)
{
    char out[AMB_TOP_CELL_BYTES(WIDTH)];
    assert_int_equal(amb_top_text(text, width, true, out, sizeof(out)), places);
    assert_string_equal(out, shown);
}

static void test_what_drives_a_terminal_is_spelled(void **state)
{
    (void)state;
    check("plain", WIDTH, "plain", 5);
    check("\x1b[2Jx\r\n", WIDTH, "\\x1b[2Jx\\x0d\\x0a", 16);
    check("\xc2\x9b"
          "31m",
          WIDTH, "\\u009b31m", 9);
    check("\x7f\\", WIDTH, "\\x7f\\\\", 6);
    check("", WIDTH, "", 0);
}

static void test_what_turns_or_hides_text_is_spelled(void **state)
{
    (void)state;
    check("a\xe2\x80\xae"
          "b",
          WIDTH, "a\\u202eb", 8);
    check("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c", WIDTH, "\\u2066\\u200f\\u061c", 18);
    check("\xe2\x80\x8b\xef\xbb\xbf", WIDTH, "\\u200b\\ufeff", 12);
    check("\xf3\xa0\x81\x81", WIDTH, "\\U000e0041", 10);
}

static void test_bytes_that_are_no_character(void **state)
{
    (void)state;
    check("\xff\x80", WIDTH, "\\xff\\x80", 8);
    check("\xc0\xaf", WIDTH, "\\xc0\\xaf", 8);
    check("a\xe2\x82", WIDTH, "a\\xe2\\x82", 9);
    check("\xed\xa0\x80", WIDTH, "\\xed\\xa0\\x80", 12);
}

static void test_wide_characters_take_two_places(void **state)
{
    (void)state;
    check("\xe6\x97\xa5\xe6\x9c\xac", WIDTH, "\xe6\x97\xa5\xe6\x9c\xac", 4);
    check("\xe6\x97\xa5\xe6\x9c\xac", 4, "\xe6\x97\xa5\xe6\x9c\xac", 4);
    check("\xe6\x97\xa5\xe6\x9c\xac", 3, "\xe6\x97\xa5~", 3);
    /* The second one would stand half beyond the end, and '~' beside the first one has no place. */
    check("\xe6\x97\xa5\xe6\x9c\xac", 2, "~", 1);
}

static void test_accents_stay_on_their_character(void **state)
{
    (void)state;
    check("e\xcc\x81x", WIDTH, "e\xcc\x81x", 2);
    check("\xcc\x81x", WIDTH, "\\u0301x", 7);
    check("e\xcc\x81\xcc\x81\xcc\x81\xcc\x81", WIDTH, "e\xcc\x81\xcc\x81\\u0301\\u0301", 13);
    check("\x01\xcc\x81", WIDTH, "\\x01\\u0301", 10);
}

static void test_a_long_text_is_cut(void **state)
{
    (void)state;
    check("abcdef", 6, "abcdef", 6);
    check("abcdef", 5, "abcd~", 5);
    check("abcdef", 1, "~", 1);
    check("abcdef", 0, "", 0);
    check("abc\x1b", 6, "abc~", 4); /* A spelled character is not cut in two. */
}

static void test_without_utf8_all_is_spelled(void **state)
{
    (void)state;
    char out[AMB_TOP_CELL_BYTES(WIDTH)];
    assert_int_equal(amb_top_text("\xc3\xa9\xe6\x97\xa5", WIDTH, false, out, sizeof(out)), 12);
    assert_string_equal(out, "\\u00e9\\u65e5");
}

/* Any bytes keep to the width, and nothing is written beyond the room. */
static void test_any_bytes(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (unsigned round = 0; round < 20000; round++) {
        char text[64], out[AMB_TOP_CELL_BYTES(WIDTH) + 1];
        size_t width = round % (WIDTH + 1);
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = (char)(seed >> 24);
        }
        text[(seed >> 8) % sizeof(text)] = '\0';
        text[sizeof(text) - 1] = '\0';
        out[sizeof(out) - 1] = 'x';
        size_t places = amb_top_text(text, width, true, out, sizeof(out) - 1);
        assert_true(places <= width);
        assert_int_equal(out[sizeof(out) - 1], 'x');
        for (const char *at = out; *at != '\0'; at++) {
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
        }
    }
}

static void check_number(enum amb_top_kind kind, double value, const char *shown)
{
    char out[32];
    amb_top_number(kind, value, out, sizeof(out));
    assert_string_equal(out, shown);
}

static void test_numbers(void **state)
{
    (void)state;
    check_number(AMB_TOP_BYTES, 0, "0 B");
    check_number(AMB_TOP_BYTES, 1572864, "1.50 MiB");
    check_number(AMB_TOP_BYTE_RATE, 512, "512 B");
    check_number(AMB_TOP_NS, 850000, "850 us");
    check_number(AMB_TOP_COUNT, 123456789, "123456789");
    check_number(AMB_TOP_COUNT, 12e9, "12.0 G");
    check_number(AMB_TOP_NUMBER, 4294967295.0, "4294967295");
    check_number(AMB_TOP_RATE, 0, "0");
    check_number(AMB_TOP_RATE, 0.1, "0.1");
    check_number(AMB_TOP_RATE, 12.34, "12.3");
    check_number(AMB_TOP_RATE, 12345, "12.3 k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_drives_a_terminal_is_spelled),
        cmocka_unit_test(test_what_turns_or_hides_text_is_spelled),
        cmocka_unit_test(test_bytes_that_are_no_character),
        cmocka_unit_test(test_wide_characters_take_two_places),
        cmocka_unit_test(test_accents_stay_on_their_character),
        cmocka_unit_test(test_a_long_text_is_cut),
        cmocka_unit_test(test_without_utf8_all_is_spelled),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_numbers),
    };
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        return EXIT_FAILURE;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
