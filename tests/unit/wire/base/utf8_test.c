/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: wire/base/utf8.h. */
#include "wire/base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* By the ranges of code points, and not by bits as the function does. Returns the length. */
static size_t encode(uint32_t code, uint8_t out[AMB_UTF8_MAX])
{
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len; i > 1; i--) {
        out[i - 1] = (uint8_t)(0x80 + code % 64);
        code /= 64;
    }
    out[0] = (uint8_t)(first[len > 1 ? len : 0] + code);
    return len;
}

/* Each character is read as itself, and not at all where a byte of it is missing. */
static void test_all_characters(void **state)
{
    (void)state;
    uint8_t bytes[AMB_UTF8_MAX];
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        uint32_t got = UINT32_MAX;
        size_t len = encode(code, bytes);
        bool is_surrogate = code >= 0xd800 && code < 0xe000;
        assert_int_equal(amb_utf8_decode(bytes, len, &got), is_surrogate ? 0 : len);
        assert_int_equal(got, is_surrogate ? UINT32_MAX : code);
        if (len > 1) {
            got = UINT32_MAX;
            assert_int_equal(amb_utf8_decode(bytes, len - 1, &got), 0);
            assert_int_equal(got, UINT32_MAX);
        }
    }
}

/* There are as many good sequences of two and three bytes as there are characters of that length,
 * so that no other one is taken. Of four bytes the last two are any. */
static void test_nothing_else(void **state)
{
    (void)state;
    uint32_t code = 0, counts[AMB_UTF8_MAX + 1] = {0};
    for (uint32_t head = 0; head < 0x1000000; head++) {
        uint8_t bytes[] = {(uint8_t)(head >> 16), (uint8_t)(head >> 8), (uint8_t)head, 0x80};
        counts[amb_utf8_decode(bytes, sizeof(bytes), &code)]++;
    }
    assert_int_equal(counts[1], 0x80u << 16);
    assert_int_equal(counts[2], (0x800u - 0x80u) << 8);
    assert_int_equal(counts[3], 0x10000u - 0x800u - 0x800u);
    assert_int_equal(counts[4], (0x110000u - 0x10000u) >> 6);
}

/* A text that ends with a NUL is not read past it. */
static void test_cut_text(void **state)
{
    (void)state;
    uint32_t code = 0;
    static const char *const cut[] = {"\xc3", "\xe2", "\xe2\x82", "\xf0", "\xf0\x9f\x92"};
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        size_t size = strlen(cut[i]) + 1;
        char *exact = malloc(size); /* The address sanitizer watches its end. */
        assert_non_null(exact);
        memcpy(exact, cut[i], size);
        assert_int_equal(amb_utf8_decode(exact, AMB_UTF8_MAX, &code), 0);
        free(exact);
    }
}

static void test_control(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x100; code++) {
        bool is_one = code <= 0x1f || code == 0x7f || (code >= 0x80 && code <= 0x9f);
        assert_int_equal(amb_utf8_is_control(code), is_one);
    }
    assert_false(amb_utf8_is_control(0x2028));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_characters),
        cmocka_unit_test(test_nothing_else),
        cmocka_unit_test(test_cut_text),
        cmocka_unit_test(test_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
