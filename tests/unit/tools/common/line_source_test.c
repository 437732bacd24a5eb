/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/line_source. A pipe, written to in pieces. */
#include "tools/common/line_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX ((size_t)1 << 20)

static int ends[2];
static struct amb_line_source source;

static int setup(void **state)
{
    (void)state;
    amb_line_source_init(&source, -1, MAX);
    return pipe(ends);
}

static int teardown(void **state)
{
    (void)state;
    amb_line_source_fini(&source);
    (void)close(ends[0]);
    return ends[1] >= 0 ? close(ends[1]) : 0;
}

static void put(const char *bytes, size_t len)
{
    assert_int_equal(write(ends[1], bytes, len), (ssize_t)len);
}

static void end(void)
{
    assert_int_equal(close(ends[1]), 0);
    ends[1] = -1;
}

static void expect(const char *bytes, size_t size)
{
    const uint8_t *line = NULL;
    size_t len = 0;
    assert_int_equal(amb_line_source_next(&source, 0, &line, &len), AMB_LINE_HERE);
    assert_int_equal(len, size);
    assert_memory_equal(line, bytes, size);
}

static void expect_none(enum amb_line_is is)
{
    const uint8_t *line;
    size_t len;
    assert_int_equal(amb_line_source_next(&source, 0, &line, &len), is);
}

static void test_lines_come_once_they_are_whole(void **state)
{
    (void)state;
    amb_line_source_init(&source, ends[0], MAX);
    expect_none(AMB_LINE_NOT_YET);
    put("one\ntw", 6);
    expect("one", 3);
    expect_none(AMB_LINE_NOT_YET);
    put("o\n\n\0\r\nrest", 10);
    expect("two", 3);
    expect("", 0);
    expect("\0\r", 2);
    expect_none(AMB_LINE_NOT_YET);
    end();
    expect("rest", 4);
    expect_none(AMB_LINE_END);
    expect_none(AMB_LINE_END);
}

static void test_no_lines(void **state)
{
    (void)state;
    amb_line_source_init(&source, ends[0], MAX);
    end();
    expect_none(AMB_LINE_END);
}

/* Longer than a read, and read in many. */
static void test_a_long_line(void **state)
{
    (void)state;
    static char large[300000];
    memset(large, 'x', sizeof(large));
    large[sizeof(large) - 1] = '\n';
    FILE *file = tmpfile();
    assert_non_null(file);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fwrite(large, 1, sizeof(large), file), sizeof(large));
    }
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    amb_line_source_init(&source, fileno(file), MAX);
    expect(large, sizeof(large) - 1);
    expect(large, sizeof(large) - 1);
    expect_none(AMB_LINE_END);
    assert_int_equal(fclose(file), 0);
}

static void test_a_line_that_is_too_long(void **state)
{
    (void)state;
    amb_line_source_init(&source, ends[0], 4);
    put("1234\n12345\n", 11);
    expect("1234", 4);
    expect_none(AMB_LINE_TOO_LONG);
}

static void test_one_that_never_ends_is_not_read_to_its_end(void **state)
{
    (void)state;
    amb_line_source_init(&source, ends[0], 4);
    put("12345", 5);
    expect_none(AMB_LINE_TOO_LONG);
}

static void test_a_folder_has_no_lines(void **state)
{
    (void)state;
    amb_line_source_init(&source, ends[1], 4); /* the end that is written to */
    put("x\n", 2);
    FILE *file = fopen("/", "re");
    assert_non_null(file);
    source.fd = fileno(file);
    expect_none(AMB_LINE_FAILED);
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_come_once_they_are_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_is_too_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_never_ends_is_not_read_to_its_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_has_no_lines, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
