/* SPDX-License-Identifier: Apache-2.0 */
/* Files that nobody else may read: modes, owners, kinds, sizes; and files that are made. */
#include "wire/auth/private_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/amb-private-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text, mode_t mode)
{
    (void)unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void refuses(size_t max, const char *part)
{
    struct amb_private_file file;
    char why[AMB_PRIVATE_WHY_MAX] = "";
    assert_int_equal(amb_private_file_read(path, max, &file, why), AMB_EINVAL);
    assert_null(file.text);
    assert_memory_equal(why, path, strlen(path));
    if (strstr(why, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, why);
    }
}

static void test_a_file_is_read_whole(void **state)
{
    (void)state;
    struct amb_private_file file;
    char why[AMB_PRIVATE_WHY_MAX];
    write_file("secret\n", 0600);
    assert_int_equal(amb_private_file_read(path, 7, &file, why), AMB_OK);
    assert_int_equal(file.len, 7);
    assert_string_equal(file.text, "secret\n");
    assert_true(file.modified_ns > 0);
    amb_private_file_free(&file);
    amb_private_file_free(&file);
    write_file("", 0400);
    assert_int_equal(amb_private_file_read(path, 0, &file, why), AMB_OK);
    assert_int_equal(file.len, 0);
    amb_private_file_free(&file);
}

static void test_others_may_neither_read_nor_write(void **state)
{
    (void)state;
    static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0601, 0610};
    for (unsigned i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
        write_file("secret", open_modes[i]);
        refuses(100, "allowed 0600 or stricter");
    }
}

static void test_the_owner_is_us_or_root(void **state)
{
    (void)state;
    write_file("secret", 0600);
    if (geteuid() != 0 || chown(path, 4711, (gid_t)-1) != 0) {
        skip();
    }
    refuses(100, "is another user's (got uid 4711, allowed 0 or 0)");
}

static void test_nothing_but_a_file_of_that_size(void **state)
{
    (void)state;
    write_file("12345678", 0600);
    refuses(7, "is too large (allowed 7 bytes)");
    assert_int_equal(unlink(path), 0);
    refuses(7, "cannot be read: No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0); /* Nobody writes to it: a read would wait. */
    refuses(7, "is not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refuses(7, "is not a regular file");
    assert_int_equal(rmdir(path), 0);
}

static void test_a_file_is_made_once(void **state)
{
    (void)state;
    struct stat st;
    struct amb_private_file file;
    char why[AMB_PRIVATE_WHY_MAX] = "";
    mode_t before = umask(0777);
    (void)unlink(path);
    assert_int_equal(amb_private_file_create(path, "one\n", why), AMB_OK);
    (void)umask(before);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(amb_private_file_create(path, "two\n", why), AMB_EINVAL);
    assert_non_null(strstr(why, "cannot be made: File exists"));
    assert_int_equal(amb_private_file_read(path, 100, &file, why), AMB_OK);
    assert_string_equal(file.text, "one\n");
    amb_private_file_free(&file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(amb_private_file_create(path, "two\n", why), AMB_EINVAL);
    assert_int_equal(amb_private_file_create("/nowhere/file", "two\n", why), AMB_EINVAL);
    assert_non_null(strstr(why, "/nowhere/file cannot be made: No such file or directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_read_whole),
        cmocka_unit_test(test_others_may_neither_read_nor_write),
        cmocka_unit_test(test_the_owner_is_us_or_root),
        cmocka_unit_test(test_nothing_but_a_file_of_that_size),
        cmocka_unit_test(test_a_file_is_made_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
