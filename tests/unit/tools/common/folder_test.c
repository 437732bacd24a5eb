/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/folder, in real folders. */
#include "tools/common/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_there(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

static void make_file(const char *folder, const char *name)
{
    char path[AMB_FOLDER_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void test_folder_is_for_its_user_alone_and_goes_with_its_files(void **state)
{
    (void)state;
    char one[AMB_FOLDER_MAX], other[AMB_FOLDER_MAX];
    struct stat stat;
    assert_true(amb_folder_make("amb-folder", one));
    assert_true(amb_folder_make("amb-folder", other));
    assert_string_not_equal(one, other);
    assert_int_equal(lstat(one, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0700);
    make_file(one, "a");
    make_file(one, ".b");
    amb_folder_remove(one);
    assert_false(is_there(one));
    amb_folder_remove(one); /* Twice, and none at all. */
    amb_folder_remove("");
    assert_true(is_there(other));
    amb_folder_remove(other);
}

static void test_folder_lies_below_tmpdir_where_a_socket_in_it_still_fits(void **state)
{
    (void)state;
    char base[AMB_FOLDER_MAX], out[AMB_FOLDER_MAX], before[256] = "";
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(before, sizeof(before), "%s", tmp != NULL ? tmp : "");
    assert_true(amb_folder_make("amb-base", base));
    (void)setenv("TMPDIR", base, 1);
    assert_true(amb_folder_make("amb-folder", out));
    assert_int_equal(strncmp(out, base, strlen(base)), 0);
    amb_folder_remove(out);
    (void)setenv("TMPDIR", "/a-folder-with-a-name-that-is-longer-than-a-socket-may-have-in-it-here",
                 1);
    assert_true(amb_folder_make("amb-folder", out));
    assert_int_equal(strncmp(out, "/tmp/", 5), 0);
    amb_folder_remove(out);
    (void)setenv("TMPDIR", "/proc/none", 1);
    assert_false(amb_folder_make("amb-folder", out));
    if (before[0] != '\0') {
        (void)setenv("TMPDIR", before, 1);
    } else {
        (void)unsetenv("TMPDIR");
    }
    amb_folder_remove(base);
}

static void test_folder_behind_a_link_is_left_alone(void **state)
{
    (void)state;
    char real[AMB_FOLDER_MAX], link[AMB_FOLDER_MAX + 8];
    assert_true(amb_folder_make("amb-folder", real));
    make_file(real, "a");
    (void)snprintf(link, sizeof(link), "%s-link", real);
    assert_int_equal(symlink(real, link), 0);
    amb_folder_remove(link);
    assert_true(is_there(link));
    (void)unlink(link);
    char file[AMB_FOLDER_MAX + 8];
    (void)snprintf(file, sizeof(file), "%s/a", real);
    assert_true(is_there(file));
    amb_folder_remove(real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder_is_for_its_user_alone_and_goes_with_its_files),
        cmocka_unit_test(test_folder_lies_below_tmpdir_where_a_socket_in_it_still_fits),
        cmocka_unit_test(test_folder_behind_a_link_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
