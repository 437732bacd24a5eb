/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is cut is no text. */
#include "wire/base/memstream.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_a_whole_text_is_its_callers(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    (void)fprintf(stream, "%05000d.", 7);
    assert_true(amb_memstream_end(stream, &text));
    assert_int_equal(size, 5001);
    assert_int_equal(strlen(text), 5001);
    free(text);
}

static void test_none_was_opened(void **state)
{
    (void)state;
    char *text = (char *)state; /* not to be freed */
    assert_false(amb_memstream_end(NULL, &text));
    assert_null(text);
}

static ssize_t refuse(void *cookie, const char *bytes, size_t size)
{
    (void)cookie, (void)bytes, (void)size;
    errno = ENOMEM;
    return -1;
}

/* As glibc's own streams where they cannot grow: some bytes were taken, and then no more. */
static void test_a_text_that_was_cut_is_freed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char *text = strdup("a part");
        FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = refuse});
        assert_non_null(stream);
        if (i == 1) {
            assert_int_equal(setvbuf(stream, NULL, _IONBF, 0), 0);
        }
        (void)fputs("what has no room", stream);
        assert_false(amb_memstream_end(stream, &text));
        assert_null(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_text_is_its_callers),
        cmocka_unit_test(test_none_was_opened),
        cmocka_unit_test(test_a_text_that_was_cut_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
