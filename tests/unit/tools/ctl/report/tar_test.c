/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/report/tar. tests/integration/report_test.py has others' readers read it.
 */
#include "tools/ctl/report/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK 512u

static void test_a_file(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t size = 0;
    struct amb_tar tar = {.out = open_memstream(&bytes, &size), .time_s = 1700000000};
    assert_true(amb_tar_put(&tar, "folder/name", "hello", 5));
    assert_true(amb_tar_end(&tar));
    assert_int_equal(fclose(tar.out), 0);
    assert_int_equal(size, 4 * BLOCK);
    assert_string_equal(bytes, "folder/name");
    assert_string_equal(bytes + 100, "0000600");
    assert_string_equal(bytes + 124, "00000000005");
    assert_string_equal(bytes + 136, "14524770400");
    assert_memory_equal(bytes + 156, "0", 1);
    assert_memory_equal(bytes + 257,
                        "ustar\0"
                        "00",
                        8);
    assert_memory_equal(bytes + BLOCK, "hello\0", 6);
    unsigned long sum = 8 * ' ', found = strtoul(bytes + 148, NULL, 8);
    for (size_t i = 0; i < BLOCK; i++) {
        sum += i >= 148 && i < 156 ? 0 : (unsigned char)bytes[i];
    }
    assert_int_equal(found, sum);
    free(bytes);
}

static void test_files_are_filled_up(void **state)
{
    (void)state;
    static const struct {
        size_t len, blocks;
    } cases[] = {{0, 1}, {1, 2}, {511, 2}, {512, 2}, {513, 3}};
    static const char text[1024];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *bytes = NULL;
        size_t size = 0;
        struct amb_tar tar = {.out = open_memstream(&bytes, &size)};
        assert_true(amb_tar_put(&tar, "n", text, cases[i].len));
        assert_int_equal(fclose(tar.out), 0);
        assert_int_equal(size, cases[i].blocks * BLOCK);
        free(bytes);
    }
}

static void test_names_without_room(void **state)
{
    (void)state;
    char *bytes = NULL, name[AMB_TAR_NAME_MAX + 2];
    size_t size = 0;
    memset(name, 'n', sizeof(name));
    name[AMB_TAR_NAME_MAX] = '\0';
    struct amb_tar tar = {.out = open_memstream(&bytes, &size)};
    assert_true(amb_tar_put(&tar, name, "x", 1));
    name[AMB_TAR_NAME_MAX] = 'n';
    name[AMB_TAR_NAME_MAX + 1] = '\0';
    assert_false(amb_tar_put(&tar, name, "x", 1));
    assert_false(amb_tar_end(&tar));
    tar.has_failed = false;
    assert_false(amb_tar_put(&tar, "", "x", 1));
    tar.has_failed = false;
    assert_false(amb_tar_put(&tar, "n", "x", (size_t)1 << 33));
    assert_int_equal(fclose(tar.out), 0);
    free(bytes);
}

static void test_a_disk_that_is_full(void **state)
{
    (void)state;
    static char large[1 << 20];
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL) {
        skip();
    }
    struct amb_tar tar = {.out = full};
    (void)amb_tar_put(&tar, "n", large, sizeof(large));
    assert_false(amb_tar_end(&tar));
    (void)fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_files_are_filled_up),
        cmocka_unit_test(test_names_without_room),
        cmocka_unit_test(test_a_disk_that_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
