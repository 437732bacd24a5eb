/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/units, by texts as people type them and by what they should read. */
#include "tools/common/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static void test_units_size_is_binary_and_ignores_case(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"64", 64},
        {"64B", 64},
        {"1k", 1024},
        {"1K", 1024},
        {"1KiB", 1024},
        {"64kb", 65536},
        {"1M", 1048576},
        {"64MiB", 67108864},
        {"2g", 2147483648},
        {"1 MiB", 1048576},
        {"16t", UINT64_C(1) << 44},
        {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 1;
        assert_true(amb_units_size(cases[i].text, &bytes));
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void test_units_size_refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",          "-1",   "+1",  " 1",   "x",
                                        "1x",        "1.5k", "1kk", "0x10", "99999999999999999999",
                                        "17000000t", "k"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t bytes = 7;
        assert_false(amb_units_size(texts[i], &bytes));
        assert_int_equal(bytes, 7);
    }
    uint64_t bytes;
    assert_false(amb_units_size(NULL, &bytes));
}

static void test_units_count_keeps_its_maximum(void **state)
{
    (void)state;
    uint64_t n = 0;
    assert_true(amb_units_count("200", 200, &n));
    assert_int_equal(n, 200);
    assert_false(amb_units_count("201", 200, &n));
    assert_false(amb_units_count("-1", UINT64_MAX, &n));
    assert_false(amb_units_count("1k", UINT64_MAX, &n));
    assert_int_equal(n, 200);
}

static void test_units_duration_defaults_to_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"10", 10000000000},    {"1.5s", 1500000000}, {"200ms", 200000000},  {"50us", 50000},
        {"10ns", 10},           {"2m", 120000000000}, {"1h", 3600000000000}, {"0", 0},
        {"forever", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ns = -1;
        assert_true(amb_units_duration(cases[i].text, &ns));
        assert_int_equal(ns, cases[i].ns);
    }
}

static void test_units_duration_refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "-1", "inf", "nan", "1 fortnight", "1e300", "ms", "s1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t ns = 7;
        assert_false(amb_units_duration(texts[i], &ns));
        assert_int_equal(ns, 7);
    }
}

static void test_units_rate_is_above_zero(void **state)
{
    (void)state;
    double rate = 0;
    assert_true(amb_units_rate("2.5e6", &rate));
    assert_true(rate > 2499999 && rate < 2500001);
    assert_false(amb_units_rate("0", &rate));
    assert_false(amb_units_rate("-3", &rate));
    assert_false(amb_units_rate("5/s", &rate));
}

static void test_units_whole_has_an_end(void **state)
{
    (void)state;
    assert_true(amb_units_whole(-7.9) == -7 && amb_units_whole(1e15) == INT64_C(1000000000000000));
    assert_true(amb_units_whole(1e300) == INT64_MAX && amb_units_whole(-1e300) == INT64_MIN);
    assert_true(amb_units_whole((double)INT64_MAX) == INT64_MAX);
    assert_true(amb_units_whole((double)INT64_MIN) == INT64_MIN);
}

static void test_units_format_has_three_digits(void **state)
{
    (void)state;
    char text[32];
    amb_units_format_bytes(512, text, sizeof(text));
    assert_string_equal(text, "512 B");
    amb_units_format_bytes(1536, text, sizeof(text));
    assert_string_equal(text, "1.50 KiB");
    amb_units_format_bytes(67108864, text, sizeof(text));
    assert_string_equal(text, "64.0 MiB");
    amb_units_format_bytes(1048575.9, text, sizeof(text));
    assert_string_equal(text, "1.00 MiB");
    amb_units_format_ns(1250000, text, sizeof(text));
    assert_string_equal(text, "1.25 ms");
    amb_units_format_ns(185e9, text, sizeof(text));
    assert_string_equal(text, "3 min 5 s");
    amb_units_format_ns(11100e9, text, sizeof(text));
    assert_string_equal(text, "3 h 5 min");
    amb_units_format_count(999, text, sizeof(text));
    assert_string_equal(text, "999");
    amb_units_format_count(17900000, text, sizeof(text));
    assert_string_equal(text, "17.9 M");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_size_is_binary_and_ignores_case),
        cmocka_unit_test(test_units_size_refuses_what_is_none),
        cmocka_unit_test(test_units_count_keeps_its_maximum),
        cmocka_unit_test(test_units_duration_defaults_to_seconds),
        cmocka_unit_test(test_units_duration_refuses_what_is_none),
        cmocka_unit_test(test_units_rate_is_above_zero),
        cmocka_unit_test(test_units_whole_has_an_end),
        cmocka_unit_test(test_units_format_has_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
