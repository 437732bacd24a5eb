/* SPDX-License-Identifier: Apache-2.0 */
/* A users file under its lock: made, replaced, kept as it was where that fails. The end of a
 * process in the middle of an edit is tests/integration/users_edit_test.py. */
#include "wire/auth/users_file.h"

#include "wire/base/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/amb-users-XXXXXX";
static char path[64], other[64];
static char why[AMB_USERS_TEXT_WHY_MAX];

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/users", folder);
    (void)snprintf(other, sizeof(other), "%s/link", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)unlink(other);
    return rmdir(folder); /* No temporary file has stayed. */
}

static void write_text(const char *where, const char *text, mode_t mode)
{
    (void)unlink(where);
    int fd = open(where, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void holds(const char *text)
{
    struct amb_users_file file;
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_READ, 0, &file, why), AMB_OK);
    assert_string_equal(file.text, text);
    assert_int_equal(file.len, strlen(text));
    amb_users_file_close(&file);
}

static void test_a_file_is_made_and_replaced(void **state)
{
    (void)state;
    struct amb_users_file file;
    (void)unlink(path);
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_EDIT, 0, &file, why), AMB_EINVAL);
    assert_non_null(strstr(why, "cannot be read: No such file or directory"));
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_MAKE, 0, &file, why), AMB_OK);
    assert_string_equal(file.text, "# name:tenant:roles:quota:flags:credentials\n");
    assert_int_equal(file.st.st_mode & 07777, 0600);
    assert_int_equal(amb_users_file_replace(&file, "#new\n", 5, why), AMB_OK);
    amb_users_file_close(&file);
    amb_users_file_close(&file);
    holds("#new\n");
}

static void test_owner_and_mode_stay(void **state)
{
    (void)state;
    struct amb_users_file file;
    struct stat st;
    write_text(path, "#\n", 0400);
    uid_t owner = geteuid() == 0 ? 4711 : geteuid();
    assert_int_equal(chown(path, owner, (gid_t)-1), 0);
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_EDIT, 0, &file, why), AMB_OK);
    assert_int_equal(amb_users_file_replace(&file, "", 0, why), AMB_OK);
    amb_users_file_close(&file);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_int_equal(st.st_uid, owner);
}

static void test_a_link_stays_one(void **state)
{
    (void)state;
    struct amb_users_file file;
    struct stat st;
    write_text(path, "#\n", 0600);
    assert_int_equal(symlink(path, other), 0);
    assert_int_equal(amb_users_file_open(other, AMB_USERS_FILE_EDIT, 0, &file, why), AMB_OK);
    assert_int_equal(amb_users_file_replace(&file, "#x\n", 3, why), AMB_OK);
    amb_users_file_close(&file);
    assert_int_equal(lstat(other, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    holds("#x\n");
}

static void test_a_file_of_others_is_refused(void **state)
{
    (void)state;
    struct amb_users_file file;
    static const mode_t modes[] = {0640, 0604, 0620};
    for (unsigned i = 0; i < 3; i++) {
        write_text(path, "#\n", modes[i]);
        assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_EDIT, 0, &file, why), AMB_EINVAL);
        assert_non_null(strstr(why, "can be read by others"));
        assert_null(file.text);
    }
    assert_int_equal(amb_users_file_open(folder, AMB_USERS_FILE_EDIT, 0, &file, why), AMB_EINVAL);
    assert_non_null(strstr(why, "is not a regular file"));
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    struct amb_users_file one, two;
    write_text(path, "#\n", 0600);
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_EDIT, 0, &one, why), AMB_OK);
    int64_t before_ns = amb_clock_monotonic_ns();
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_EDIT, 30 * AMB_NS_PER_MS, &two, why),
                     AMB_EBUSY);
    assert_true(amb_clock_monotonic_ns() - before_ns >= 30 * AMB_NS_PER_MS);
    assert_non_null(strstr(why, "is being edited by another program"));
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_READ, 0, &two, why), AMB_OK);
    amb_users_file_close(&two);
    assert_int_equal(amb_users_file_replace(&one, "#1\n", 3, why), AMB_OK);
    /* The lock is of a file that has lost its name: the new one is free. */
    assert_int_equal(amb_users_file_open(path, AMB_USERS_FILE_EDIT, 0, &two, why), AMB_OK);
    assert_string_equal(two.text, "#1\n");
    amb_users_file_close(&two);
    amb_users_file_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_made_and_replaced),
        cmocka_unit_test(test_owner_and_mode_stay),
        cmocka_unit_test(test_a_link_stays_one),
        cmocka_unit_test(test_a_file_of_others_is_refused),
        cmocka_unit_test(test_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
