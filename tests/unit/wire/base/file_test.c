/* SPDX-License-Identifier: Apache-2.0 */
/* Small files: their first lines, and whether they may be opened. */
#include "wire/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    (void)strcpy(root, "/tmp/amb-file-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/one", root);
    (void)unlink(path);
    return rmdir(root);
}

static void write_one(const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/one", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_line_has_no_end(void **state)
{
    (void)state;
    char out[8];
    write_one("first\nsecond\n");
    assert_true(amb_file_line(root, "/one", out, sizeof(out)));
    assert_string_equal(out, "first");
    write_one("first");
    assert_true(amb_file_line(root, "/one", out, sizeof(out)));
    assert_string_equal(out, "first");
    write_one("\n");
    assert_true(amb_file_line(root, "/one", out, sizeof(out)));
    assert_string_equal(out, "");
    write_one("longer than the room\n");
    assert_true(amb_file_line(root, "/one", out, sizeof(out)));
    assert_string_equal(out, "longer ");
}

static void where_there_is_none_it_says_so(void **state)
{
    (void)state;
    char out[8];
    char *path = malloc(PATH_MAX + 1);
    assert_non_null(path);
    write_one("");
    assert_false(amb_file_line(root, "/one", out, sizeof(out)));
    assert_false(amb_file_line(root, "/two", out, sizeof(out)));
    assert_false(amb_file_line(root, "", out, sizeof(out))); /* a folder */
    memset(path, '/', PATH_MAX);
    path[PATH_MAX] = '\0';
    assert_false(amb_file_line(root, path, out, sizeof(out)));
    assert_false(amb_file_may(root, path, F_OK));
    free(path);
}

static void what_may_be_opened(void **state)
{
    (void)state;
    write_one("text\n");
    assert_true(amb_file_may(root, "/one", F_OK));
    assert_true(amb_file_may(root, "/one", R_OK | W_OK));
    assert_false(amb_file_may(root, "/one", X_OK));
    assert_false(amb_file_may(root, "/two", F_OK));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_no_end),
        cmocka_unit_test(where_there_is_none_it_says_so),
        cmocka_unit_test(what_may_be_opened),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
