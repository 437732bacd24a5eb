/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/cli/forms. */
#include "tools/cli/forms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_places(void **state)
{
    (void)state;
    struct amb_form_place place;
    assert_true(amb_form_place_read("last", &place) && place.start == AMB_START_LAST);
    assert_true(amb_form_place_read("last:7", &place) && place.start == AMB_START_LAST_N);
    assert_int_equal(place.number, 7);
    assert_true(amb_form_place_read("seq:9", &place) && place.start == AMB_START_SEQ);
    assert_true(amb_form_place_read("ago:2m", &place) && place.start == AMB_START_TIME);
    assert_int_equal(place.ago_ns, INT64_C(120000000000));
    assert_int_equal(amb_form_place_since(&place, INT64_C(120000000007)), 7);
    assert_int_equal(amb_form_place_since(&place, INT64_C(119999999999)), 0);
    assert_true(amb_form_place_read("ago:forever", &place));
    assert_int_equal(amb_form_place_since(&place, INT64_C(1790000000000000000)), 0);
    assert_true(amb_form_place_read("file:a:b", &place) && place.start == AMB_START_POSITION);
    assert_string_equal(place.file, "a:b");
    static const char *const wrong[] = {"", "last:", "last:x", "seq:", "ago:soon", "file:", "old"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(amb_form_place_fault(wrong[i]));
    }
}

static void test_ranges(void **state)
{
    (void)state;
    uint64_t offset, len;
    assert_true(amb_form_range_read("1k:16", &offset, &len));
    assert_true(offset == 1024 && len == 16);
    static const char *const wrong[] = {"",      ":",
                                        "1",     "1:",
                                        ":1",    "1:0",
                                        "-1:2",  "1:18446744073709551615",
                                        "1:2:3", "00000000000000000000000000000000000001:2"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(amb_form_range_fault(wrong[i]));
    }
}

static void test_backoff(void **state)
{
    (void)state;
    int64_t ns[AMB_FORM_BACKOFF_MAX];
    uint32_t count;
    assert_true(amb_form_backoff_read("1,500ms", ns, &count));
    assert_true(count == 2 && ns[0] == 1000000000 && ns[1] == 500000000);
    assert_true(amb_form_backoff_read("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", ns, &count));
    assert_int_equal(count, 16);
    static const char *const wrong[] = {"",   ",",    "1,",
                                        ",1", "1,,2", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(amb_form_backoff_fault(wrong[i]));
    }
}

static void test_pairs(void **state)
{
    (void)state;
    assert_null(amb_form_pair_fault("a="));
    assert_null(amb_form_key_fault("a.b=c=d"));
    assert_non_null(amb_form_pair_fault("=a"));
    assert_non_null(amb_form_key_fault("a"));
}

static void test_formats(void **state)
{
    (void)state;
    struct amb_form_piece piece;
    const char *at = "a %t%%\\n\\0\\\\";
    static const struct {
        char field;
        const char *text;
        size_t len;
    } expected[] = {{0, "a ", 2}, {'t', NULL, 0}, {0, "%", 1},
                    {0, "\n", 1}, {0, "\0", 1},   {0, "\\", 1}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(amb_form_format_next(&at, &piece));
        assert_int_equal(piece.field, expected[i].field);
        assert_int_equal(piece.len, expected[i].len);
        if (piece.len > 0) {
            assert_memory_equal(piece.text, expected[i].text, piece.len);
        }
    }
    assert_false(amb_form_format_next(&at, &piece));
    assert_int_equal(*at, '\0');
    assert_null(amb_form_format_fault("%t %p %x %l %s %k %P %I %h\\t\\r"));
    static const struct {
        const char *text, *fault;
    } wrong[] = {{"", "or \\\\"},         {"%", "position 1 "},    {"%t%", "position 3 "},
                 {"ab%q", "position 3 "}, {"ab\\", "position 3 "}, {"\\x", "position 1 "},
                 {"%%%", "position 3 "},  {"% t", "position 1 "}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *fault = amb_form_format_fault(wrong[i].text);
        assert_non_null(fault);
        assert_non_null(strstr(fault, wrong[i].fault));
        assert_true(i > 0 || strstr(fault, "position") == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),  cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_backoff), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
