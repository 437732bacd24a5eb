/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them: exact, or refused. */
#include "wire/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_size_takes_powers_of_1024(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"64K", 65536},
        {"64M", UINT64_C(64) << 20},
        {"4G", UINT64_C(4) << 30},
        {"2T", UINT64_C(2) << 40},
        {"18446744073709551615", UINT64_MAX},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t bytes = 1;
        assert_true(amb_text_parse_size(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void test_size_refuses_what_is_not_exact(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " 1",
                                      "1 ",
                                      "-1",
                                      "+1",
                                      "1.5G",
                                      "64m",
                                      "64MB",
                                      "64X",
                                      "0x10",
                                      "M",
                                      "1KK",
                                      "1e3",
                                      "\xff",
                                      "16777216T",
                                      "18446744073709551616",
                                      "99999999999999999999999999K"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t bytes = 77;
        assert_false(amb_text_parse_size(bad[i], &bytes));
        assert_int_equal(bytes, 77);
    }
}

static void test_time_needs_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0", 0},
        {"0s", 0},
        {"7ns", 7},
        {"50us", 50000},
        {"500ms", 500000000},
        {"5s", INT64_C(5000000000)},
        {"2m", INT64_C(120000000000)},
        {"1h", INT64_C(3600000000000)},
        {"1d", INT64_C(86400000000000)},
    };
    static const char *const bad[] = {"",        "5",
                                      "5 s",     "-5s",
                                      "5sec",    "s",
                                      "1.5s",    "9223372036854775807ns",
                                      "106752d", "99999999999999999999s"};
    int64_t ns;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(amb_text_parse_time(good[i].text, &ns));
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(amb_text_parse_time(bad[i], &ns));
    }
}

static void test_formatted_values_parse_back(void **state)
{
    (void)state;
    static const uint64_t values[] = {0,     1,       1023,       1024,
                                      65536, 1000000, 1048576000, UINT64_MAX >> 2};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char text[AMB_TEXT_MAX];
        uint64_t bytes;
        int64_t ns;
        amb_text_format_size(values[i], text, sizeof(text));
        assert_true(amb_text_parse_size(text, &bytes));
        assert_int_equal(bytes, values[i]);
        amb_text_format_time((int64_t)values[i], text, sizeof(text));
        assert_true(amb_text_parse_time(text, &ns));
        assert_int_equal((uint64_t)ns, values[i]);
    }
}

static void test_formatted_values_are_short(void **state)
{
    (void)state;
    char text[AMB_TEXT_MAX];
    amb_text_format_size(UINT64_C(1) << 30, text, sizeof(text));
    assert_string_equal(text, "1G");
    amb_text_format_size((UINT64_C(1) << 30) + 1024, text, sizeof(text));
    assert_string_equal(text, "1048577K");
    amb_text_format_time(INT64_C(500000000), text, sizeof(text));
    assert_string_equal(text, "500ms");
}

static void test_shown_text_is_printable_and_cut(void **state)
{
    (void)state;
    char out[8];
    assert_string_equal(amb_text_show("abc", out, sizeof(out)), "abc");
    assert_string_equal(amb_text_show("1234567", out, sizeof(out)), "1234567");
    assert_string_equal(amb_text_show("12345678", out, sizeof(out)), "1234...");
    assert_string_equal(amb_text_show("a\nb\x1b\xff", out, sizeof(out)), "a?b??");
}

static void test_dates_have_as_many_digits_as_asked_for(void **state)
{
    (void)state;
    char out[AMB_TEXT_MAX];
    const int64_t time_ns = INT64_C(1795770300012345678);
    amb_text_format_date(time_ns, 9, out, sizeof(out));
    assert_string_equal(out, "2026-11-27T09:05:00.012345678Z");
    amb_text_format_date(time_ns, 3, out, sizeof(out));
    assert_string_equal(out, "2026-11-27T09:05:00.012Z");
    amb_text_format_date(0, 1, out, sizeof(out));
    assert_string_equal(out, "1970-01-01T00:00:00.0Z");
    amb_text_format_date(INT64_MAX, 9, out, sizeof(out));
    assert_string_equal(out, "2262-04-11T23:47:16.854775807Z");
}

static void test_bytes_are_two_digits_each(void **state)
{
    (void)state;
    const unsigned char bytes[] = {0x00, 0x7f, 0x80, 0xfa};
    char out[2 * sizeof(bytes) + 1];
    amb_text_format_hex(bytes, sizeof(bytes), out);
    assert_string_equal(out, "007f80fa");
    amb_text_format_hex(bytes, 0, out);
    assert_string_equal(out, "");
}

static void test_visible_text_has_no_blank_and_nothing_beyond_ascii(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        const unsigned char text[] = {'a', (unsigned char)c, 'b'};
        assert_int_equal(amb_text_is_visible(text, sizeof(text)), c >= '!' && c <= '~');
    }
    assert_true(amb_text_is_visible("a b", 1));
    assert_true(amb_text_is_visible("", 0));
}

static void test_control_characters_of_ascii(void **state)
{
    (void)state;
    assert_false(amb_text_has_control("", 0));
    assert_false(amb_text_has_control(" ~\x80\xff", 4));
    assert_true(amb_text_has_control("a\0", 2));
    assert_true(amb_text_has_control("\x1f", 1));
    assert_true(amb_text_has_control("a\x7f", 2));
    assert_false(amb_text_has_control("a\x7f", 1));
}

static void test_a_list_has_whole_words(void **state)
{
    (void)state;
    assert_true(amb_text_list_has("tcp", "tcp"));
    assert_true(amb_text_list_has("tcp,self,rc", "tcp"));
    assert_true(amb_text_list_has("tcp,self,rc", "self"));
    assert_true(amb_text_list_has("tcp,self,rc", "rc"));
    assert_true(amb_text_list_has("mlx5_0,mlx5_0:1", "mlx5_0:1"));
    assert_false(amb_text_list_has("mlx5_0:1", "mlx5_0"));
    assert_false(amb_text_list_has("tcp,self", "el"));
    assert_false(amb_text_list_has("tcp,self", "sel"));
    assert_false(amb_text_list_has("tcp,self", "selfs"));
    assert_false(amb_text_list_has("", "tcp"));
}

static void test_distance_counts_edits_up_to_its_limit(void **state)
{
    (void)state;
    assert_int_equal(amb_text_distance("workers", "workers", 3), 0);
    assert_int_equal(amb_text_distance("workers", "wokers", 3), 1);
    assert_int_equal(amb_text_distance("workers", "wrokers", 3), 1);
    assert_int_equal(amb_text_distance("workers", "workres!", 3), 2);
    assert_int_equal(amb_text_distance("abc", "", 5), 3);
    assert_int_equal(amb_text_distance("", "", 5), 0);
    assert_int_equal(amb_text_distance("abcdef", "uvwxyz", 3), 4);
    char huge[4096];
    memset(huge, 'a', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    assert_int_equal(amb_text_distance(huge, "a", 3), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_takes_powers_of_1024),
        cmocka_unit_test(test_size_refuses_what_is_not_exact),
        cmocka_unit_test(test_time_needs_a_unit),
        cmocka_unit_test(test_formatted_values_parse_back),
        cmocka_unit_test(test_formatted_values_are_short),
        cmocka_unit_test(test_shown_text_is_printable_and_cut),
        cmocka_unit_test(test_dates_have_as_many_digits_as_asked_for),
        cmocka_unit_test(test_bytes_are_two_digits_each),
        cmocka_unit_test(test_visible_text_has_no_blank_and_nothing_beyond_ascii),
        cmocka_unit_test(test_control_characters_of_ascii),
        cmocka_unit_test(test_a_list_has_whole_words),
        cmocka_unit_test(test_distance_counts_edits_up_to_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
