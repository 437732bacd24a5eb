/* SPDX-License-Identifier: Apache-2.0 */
/* A copy is the bytes asked for and no other, however either side lies. */
#include "wire/base/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MARGIN 64u
#define ROOM (AMB_COPY_STREAM_MIN + 4096)

static uint8_t *make(uint8_t seed)
{
    uint8_t *bytes = malloc(ROOM + 2 * MARGIN);
    assert_non_null(bytes);
    for (size_t i = 0; i < ROOM + 2 * MARGIN; i++) {
        bytes[i] = (uint8_t)(seed + i * 7 + (i >> 8));
    }
    return bytes;
}

/* `copy` is asked for n bytes between such offsets; all else must stay 0xEE. */
static void expect_exact(void (*copy)(void *restrict, const void *restrict, size_t),
                         const uint8_t *from, uint8_t *to, size_t n)
{
    memset(to - MARGIN, 0xEE, n + 2 * MARGIN);
    copy(to, from, n);
    assert_memory_equal(to, from, n);
    for (size_t i = 0; i < MARGIN; i++) {
        assert_int_equal(to[-1 - (ptrdiff_t)i], 0xEE);
        assert_int_equal(to[n + i], 0xEE);
    }
}

static void copies_past_the_caches_are_exact(void **state)
{
    (void)state;
    uint8_t *from = make(3), *to = make(0);
    const size_t lengths[] = {0, 1, 15, 63, 64, 65, 127, 128, 1000, 4096, 100001};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t at = 0; at < MARGIN; at += 5) {
            expect_exact(amb_copy_stream, from + at, to + MARGIN + (at * 3) % MARGIN, lengths[i]);
        }
    }
    free(from);
    free(to);
}

static void copies_on_both_sides_of_the_limit_are_exact(void **state)
{
    (void)state;
    uint8_t *from = make(5), *to = make(0);
    for (size_t n = AMB_COPY_STREAM_MIN - 1; n <= AMB_COPY_STREAM_MIN + 1; n++) {
        expect_exact(amb_copy, from + 1, to + MARGIN + 3, n);
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_past_the_caches_are_exact),
        cmocka_unit_test(copies_on_both_sides_of_the_limit_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
