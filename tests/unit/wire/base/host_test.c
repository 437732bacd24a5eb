/* SPDX-License-Identifier: Apache-2.0 */
/* Machines made of folders, and this one. */
#include "wire/base/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    (void)strcpy(root, "/tmp/amb-host-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[96];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void boot(const char *text)
{
    char path[128];
    static const char *const folders[] = {"proc", "proc/sys", "proc/sys/kernel",
                                          "proc/sys/kernel/random"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        (void)mkdir(path, 0700);
    }
    (void)snprintf(path, sizeof(path), "%s/proc/sys/kernel/random/boot_id", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void machines_differ_and_one_stays_itself(void **state)
{
    (void)state;
    assert_int_equal(amb_host_id(root), 0); /* No /proc. */
    boot("5a0b4bd2-6f3f-4bde-9d0b-0b7c7a1d4c11\n");
    uint64_t first = amb_host_id(root);
    assert_int_not_equal(first, 0);
    assert_int_equal(amb_host_id(root), first);
    boot("5a0b4bd2-6f3f-4bde-9d0b-0b7c7a1d4c12\n");
    assert_int_not_equal(amb_host_id(root), first);
    boot("\n");
    assert_int_equal(amb_host_id(root), 0);
}

static void namespaces_have_numbers(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat("/proc/self/ns/ipc", &st), 0);
    assert_int_equal(amb_host_namespace("ipc"), st.st_ino);
    assert_int_equal(amb_host_namespace("none"), 0);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(machines_differ_and_one_stays_itself),
        T(namespaces_have_numbers),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
