/* SPDX-License-Identifier: Apache-2.0 */
/* A file of whole lines: a limit to its size stands for a full disk. */
#include "broker/audit/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/amb-audit-XXXXXX";
static char path[64], why[AMB_AUDIT_WHY_MAX];

static int setup(void **state)
{
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/audit", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void holds(const char *text)
{
    char got[256] = "";
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t len = read(fd, got, sizeof(got) - 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(len, strlen(text));
    assert_string_equal(got, text);
}

static void limit(rlim_t bytes)
{
    struct rlimit size;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &size), 0);
    size.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &size), 0);
}

static void test_lines_are_appended(void **state)
{
    (void)state;
    struct amb_audit_file file;
    struct stat st;
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_OK);
    assert_int_equal(amb_audit_file_append(&file, "one\n", 4, false), 0);
    assert_int_equal(amb_audit_file_append(&file, "two\n", 4, true), 0);
    amb_audit_file_close(&file);
    amb_audit_file_close(&file);
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_OK);
    assert_int_equal(amb_audit_file_append(&file, "three\n", 6, false), 0);
    amb_audit_file_close(&file);
    holds("one\ntwo\nthree\n");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(unlink(path), 0);
}

static void test_a_full_disk_leaves_no_half_line(void **state)
{
    (void)state;
    struct amb_audit_file file;
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_OK);
    assert_int_equal(amb_audit_file_append(&file, "one\n", 4, false), 0);
    limit(8);
    assert_int_not_equal(amb_audit_file_append(&file, "a line that does not fit\n", 25, false), 0);
    holds("one\n");
    limit(4);
    assert_int_equal(amb_audit_file_append(&file, "two\n", 4, true), EFBIG);
    holds("one\n");
    limit(RLIM_INFINITY);
    assert_int_equal(amb_audit_file_append(&file, "two\n", 4, true), 0);
    holds("one\ntwo\n");
    amb_audit_file_close(&file);
    assert_int_equal(unlink(path), 0);
}

static void refuses(const char *part)
{
    struct amb_audit_file file = {.fd = 42};
    assert_int_equal(amb_audit_file_open(path, &file, why), AMB_EINVAL);
    if (strstr(why, part) == NULL) {
        fail_msg("\"%s\" is not in: %s", part, why);
    }
    assert_int_equal(file.fd, 42);
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    refuses("cannot be opened: No such device or address"); /* Nobody reads it. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refuses("cannot be opened: Is a directory");
    assert_int_equal(rmdir(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(close(fd), 0);
    assert_int_equal(chmod(path, 0620), 0);
    refuses("can be written by others");
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0 && chown(path, 4711, (gid_t)-1) == 0) {
        refuses("is another user's");
    }
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_appended),
        cmocka_unit_test(test_a_full_disk_leaves_no_half_line),
        cmocka_unit_test(test_other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
