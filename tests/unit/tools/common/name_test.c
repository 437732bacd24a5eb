/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/name, by names that a hostile sender would choose, in a real folder. */
#include "tools/common/name.h"

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

static void test_name_never_leaves_the_folder(void **state)
{
    (void)state;
    static const struct {
        const char *name, *clean;
    } cases[] = {
        {"plain.txt", "plain.txt"},
        {"/etc/passwd", "passwd"},
        {"../../etc/passwd", "passwd"},
        {"a/../b", "b"},
        {"..", ""},
        {".", ""},
        {"", ""},
        {"dir/", ""},
        {"/", ""},
        {"....", ""},
        {".ssh", "ssh"},
        {"x/.bashrc", "bashrc"},
        {" .. x", "x"},
        {"a\nb\033[2Jc\177", "a_b_[2Jc_"},
        {"..\\..\\x", "_.._x"},
        {"\xc3\xa4.txt", "\xc3\xa4.txt"},
        {"a\xc2\x9b"
         "2J",
         "a__2J"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[AMB_NAME_MAX + 1];
        size_t len = amb_name_clean(cases[i].name, strlen(cases[i].name), out);
        assert_string_equal(out, cases[i].clean);
        assert_int_equal(len, strlen(cases[i].clean));
    }
}

static void test_name_with_zero_bytes_is_one_text(void **state)
{
    (void)state;
    char out[AMB_NAME_MAX + 1];
    assert_int_equal(amb_name_clean("a\0/..\0b", 7, out), 2);
    assert_string_equal(out, "_b");
}

static void test_name_is_cut_between_characters(void **state)
{
    (void)state;
    char name[1000];
    char out[AMB_NAME_MAX + 1];
    memset(name, 'x', sizeof(name));
    assert_int_equal(amb_name_clean(name, sizeof(name), out), AMB_NAME_MAX);
    /* A two-byte character across the border goes as a whole. */
    name[AMB_NAME_MAX - 1] = (char)0xc3;
    name[AMB_NAME_MAX] = (char)0xa4;
    assert_int_equal(amb_name_clean(name, sizeof(name), out), AMB_NAME_MAX - 1);
    /* Nothing but continuation bytes: nothing is left, nothing is read before the start. */
    memset(name, 0x80, sizeof(name));
    assert_int_equal(amb_name_clean(name, sizeof(name), out), 0);
}

struct folder {
    char path[64];
    int fd;
};

static int folder_setup(void **state)
{
    static struct folder folder;
    (void)snprintf(folder.path, sizeof(folder.path), "/tmp/amb-name-test.XXXXXX");
    if (mkdtemp(folder.path) == NULL) {
        return -1;
    }
    folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY);
    *state = &folder;
    return folder.fd < 0 ? -1 : 0;
}

static int folder_teardown(void **state)
{
    struct folder *folder = *state;
    static const char *const names[] = {"7-x",      "7-x.2",  "7-x.3",   "8-link",
                                        "8-link.2", "9-fifo", "9-fifo.2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlinkat(folder->fd, names[i], 0);
    }
    (void)close(folder->fd);
    return rmdir(folder->path);
}

static void test_name_create_never_overwrites(void **state)
{
    struct folder *folder = *state;
    char name[256];
    int fd = amb_name_create(folder->fd, 7, "x", name, sizeof(name));
    assert_true(fd >= 0);
    assert_string_equal(name, "7-x");
    (void)close(fd);
    fd = amb_name_create(folder->fd, 7, "x", name, sizeof(name));
    assert_true(fd >= 0);
    assert_string_equal(name, "7-x.2");
    (void)close(fd);
    fd = amb_name_create(folder->fd, 7, "x", name, sizeof(name));
    assert_string_equal(name, "7-x.3");
    (void)close(fd);
}

static void test_name_create_follows_no_link(void **state)
{
    struct folder *folder = *state;
    char name[256];
    char target[128];
    (void)snprintf(target, sizeof(target), "%s/../amb-name-test-target", folder->path);
    assert_int_equal(symlinkat(target, folder->fd, "8-link"), 0);
    assert_int_equal(mkfifoat(folder->fd, "9-fifo", 0600), 0);
    int fd = amb_name_create(folder->fd, 8, "link", name, sizeof(name));
    assert_true(fd >= 0);
    assert_string_equal(name, "8-link.2");
    (void)close(fd);
    assert_int_equal(access(target, F_OK), -1);
    /* Opening a FIFO would hang for ever. */
    fd = amb_name_create(folder->fd, 9, "fifo", name, sizeof(name));
    assert_true(fd >= 0);
    assert_string_equal(name, "9-fifo.2");
    (void)close(fd);
}

static void test_name_create_says_too_long(void **state)
{
    struct folder *folder = *state;
    char name[8];
    assert_int_equal(amb_name_create(folder->fd, 123456, "longer", name, sizeof(name)), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_never_leaves_the_folder),
        cmocka_unit_test(test_name_with_zero_bytes_is_one_text),
        cmocka_unit_test(test_name_is_cut_between_characters),
        cmocka_unit_test_setup_teardown(test_name_create_never_overwrites, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_name_create_follows_no_link, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_name_create_says_too_long, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
