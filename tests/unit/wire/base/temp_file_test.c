/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files, in a folder of their own. Its end finds what any of them has left. */
#include "wire/base/temp_file.h"

#include "wire/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128], other[128];
static int flock_error, fsync_error, renameat2_error; /* 0: it does its work */

int __real_flock(int fd, int what);
int __wrap_flock(int fd, int what);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);

int __wrap_flock(int fd, int what)
{
    errno = flock_error;
    return flock_error == 0 ? __real_flock(fd, what) : -1;
}

int __wrap_fsync(int fd)
{
    errno = fsync_error;
    return fsync_error == 0 ? __real_fsync(fd) : -1;
}

int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    errno = renameat2_error;
    return renameat2_error == 0 ? __real_renameat2(at, from, to_at, to, flags) : -1;
}

static int set_up(void **state)
{
    (void)state;
    flock_error = fsync_error = renameat2_error = 0;
    (void)strcpy(folder, "/tmp/amb-temp-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/name", folder);
    (void)snprintf(other, sizeof(other), "%s/other", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)unlink(other);
    return rmdir(folder); /* It has nothing else. */
}

static void write_text(const char *where, const char *text, mode_t mode)
{
    int fd = open(where, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_true(amb_file_write(fd, text, strlen(text)));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void holds(const char *where, const char *text)
{
    char line[64] = "";
    assert_true(amb_file_line("", where, line, sizeof(line)));
    assert_string_equal(line, text);
}

static mode_t mode_of(const char *where)
{
    struct stat st;
    assert_int_equal(lstat(where, &st), 0);
    return st.st_mode & 07777;
}

static void test_the_former_stays_until_the_end(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0640};
    struct amb_temp_file temp;
    write_text(path, "former", 0600);
    assert_true(amb_temp_file_create(&temp, path, 0600));
    assert_true(amb_file_write(temp.fd, "later", 5));
    holds(path, "former");
    assert_int_equal(mode_of(temp.beside), 0600);
    assert_true(amb_temp_file_rename(&temp, &end));
    amb_temp_file_drop(&temp);
    holds(path, "later");
    assert_int_equal(mode_of(path), 0640);
}

static void test_a_mode_heeds_the_umask(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0};
    mode_t mask = umask(0027);
    bool is_written = amb_temp_file_replace(path, "x", 1, 0666, &end);
    (void)umask(mask);
    assert_true(is_written);
    assert_int_equal(mode_of(path), 0640);
}

static void test_the_owner_stays(void **state)
{
    (void)state;
    struct stat st;
    uid_t owner = geteuid() == 0 ? 4711 : geteuid();
    write_text(path, "former", 0600);
    assert_int_equal(chown(path, owner, (gid_t)-1), 0);
    assert_int_equal(stat(path, &st), 0);
    const struct amb_temp_file_end end = {.mode = 0400, .former = &st};
    assert_true(amb_temp_file_replace(path, "later", 5, 0600, &end));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, owner);
    assert_int_equal(st.st_mode & 07777, 0400);
}

static void test_a_dropped_one_leaves_the_former(void **state)
{
    (void)state;
    struct amb_temp_file temp;
    write_text(path, "former", 0600);
    assert_true(amb_temp_file_create(&temp, path, 0600));
    errno = EIO;
    amb_temp_file_drop(&temp);
    amb_temp_file_drop(&temp);
    assert_int_equal(errno, EIO);
    holds(path, "former");
}

/* Nobody reads half of a file because a disk was full. */
static void test_what_is_not_on_the_disk_has_no_name(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    write_text(path, "former", 0600);
    fsync_error = ENOSPC;
    assert_false(amb_temp_file_replace(path, "later", 5, 0600, &end));
    assert_int_equal(errno, ENOSPC);
    holds(path, "former");
}

static void test_a_link_is_replaced_and_not_followed(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    struct stat st;
    write_text(other, "theirs", 0600);
    assert_int_equal(symlink(other, path), 0);
    assert_true(amb_temp_file_replace(path, "later", 5, 0600, &end));
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    holds(other, "theirs");
    holds(path, "later");
}

static void leave_others(void)
{
    const struct amb_temp_file_end end = {.leaves_others = true};
    assert_true(amb_temp_file_replace(path, "first", 5, 0600, &end));
    assert_false(amb_temp_file_replace(path, "second", 6, 0600, &end));
    assert_int_equal(errno, EEXIST);
    holds(path, "first");
}

static void test_another_file_may_stay(void **state)
{
    (void)state;
    leave_others();
}

static void test_a_file_system_may_know_no_such_rename(void **state)
{
    (void)state;
    renameat2_error = EINVAL;
    leave_others();
}

/* The folder's end finds no file of the shared name. */
static void test_a_file_system_may_know_no_locks(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    flock_error = ENOLCK;
    assert_true(amb_temp_file_replace(path, "later", 5, 0600, &end));
    holds(path, "later");
}

/* A program was killed, then another one. */
static void test_what_a_killed_one_left_goes(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    struct amb_temp_file killed, temp;
    assert_true(amb_temp_file_create(&killed, path, 0644));
    assert_true(amb_file_write(killed.fd, "half of it, and longer", 22));
    assert_int_equal(close(killed.fd), 0); /* As a killed one's end does. */
    assert_true(amb_temp_file_create(&temp, path, 0600));
    assert_string_equal(temp.beside, killed.beside);
    assert_int_equal(mode_of(temp.beside), 0600);
    assert_true(amb_file_write(temp.fd, "later", 5));
    assert_true(amb_temp_file_rename(&temp, &end));
    holds(path, "later");
    assert_int_equal(access(killed.beside, F_OK), -1);
}

static void test_two_at_once_have_names_of_their_own(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    struct amb_temp_file one, two;
    assert_true(amb_temp_file_create(&one, path, 0600));
    assert_true(amb_temp_file_create(&two, path, 0600));
    assert_string_not_equal(one.beside, two.beside);
    assert_true(amb_file_write(one.fd, "one", 3));
    assert_true(amb_file_write(two.fd, "two", 3));
    assert_true(amb_temp_file_rename(&one, &end));
    holds(path, "one");
    assert_true(amb_temp_file_rename(&two, &end));
    holds(path, "two");
}

/* Somebody who may write to the folder has put a link where the temporary file would be. */
static void test_a_link_in_its_place_stays(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    struct amb_temp_file temp;
    assert_true(amb_temp_file_create(&temp, path, 0600));
    char place[PATH_MAX];
    (void)snprintf(place, sizeof(place), "%s", temp.beside);
    amb_temp_file_drop(&temp);
    write_text(other, "theirs", 0600);
    assert_int_equal(symlink(other, place), 0);
    assert_true(amb_temp_file_replace(path, "later", 5, 0600, &end));
    holds(path, "later");
    holds(other, "theirs");
    assert_int_equal(unlink(place), 0);
}

static void test_places_that_are_none(void **state)
{
    (void)state;
    struct amb_temp_file temp;
    static char name[PATH_MAX + 8];
    memset(name, 'n', sizeof(name) - 1);
    assert_false(amb_temp_file_create(&temp, name, 0600));
    assert_int_equal(errno, ENAMETOOLONG);
    amb_temp_file_drop(&temp);
    assert_false(amb_temp_file_create(&temp, "/none/such/name", 0600));
    assert_int_equal(errno, ENOENT);
    amb_temp_file_drop(&temp);
    /* A folder keeps its name. */
    const struct amb_temp_file_end end = {.mode = 0600};
    assert_false(amb_temp_file_replace(folder, "later", 5, 0600, &end));
    assert_int_equal(errno, EISDIR);
}

/* The longest name that a file may have leaves room for the other one. */
static void test_a_name_may_be_long(void **state)
{
    (void)state;
    const struct amb_temp_file_end end = {.mode = 0600};
    char where[512];
    int len = snprintf(where, sizeof(where), "%s/", folder);
    memset(where + len, 'n', NAME_MAX);
    where[len + NAME_MAX] = '\0';
    assert_true(amb_temp_file_replace(where, "later", 5, 0600, &end));
    holds(where, "later");
    assert_int_equal(unlink(where), 0);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_the_former_stays_until_the_end),
        T(test_a_mode_heeds_the_umask),
        T(test_the_owner_stays),
        T(test_a_dropped_one_leaves_the_former),
        T(test_what_is_not_on_the_disk_has_no_name),
        T(test_a_link_is_replaced_and_not_followed),
        T(test_another_file_may_stay),
        T(test_a_file_system_may_know_no_such_rename),
        T(test_a_file_system_may_know_no_locks),
        T(test_what_a_killed_one_left_goes),
        T(test_two_at_once_have_names_of_their_own),
        T(test_a_link_in_its_place_stays),
        T(test_places_that_are_none),
        T(test_a_name_may_be_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
