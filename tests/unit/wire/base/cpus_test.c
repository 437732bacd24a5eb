/* SPDX-License-Identifier: Apache-2.0 */
/* Sets and lists of processors; quotas of control groups that are made of folders. */
#include "wire/base/cpus.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_a_list_keeps_its_order(void **state)
{
    (void)state;
    uint16_t list[8];
    unsigned count;
    assert_null(amb_cpus_parse("8,0-3", list, 8, &count));
    assert_int_equal(count, 5);
    const uint16_t expected[] = {8, 0, 1, 2, 3};
    assert_memory_equal(list, expected, sizeof(expected));
    assert_null(amb_cpus_parse("8191", list, 8, &count));
    assert_int_equal(list[0], 8191);
}

static void test_what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",      ",", "1,",   ",1",   "-1",  "1-",  "3-1", " 1",  "1 ",     "1, 2",
        "1-2-3", "x", "auto", "8192", "0x1", "1;2", "+1",  "1.5", "0-8192", "99999999999999"};
    uint16_t list[8];
    unsigned count;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_string_equal(amb_cpus_parse(bad[i], list, 8, &count), "not a list of processors");
    }
    assert_string_equal(amb_cpus_parse("1,0-2", list, 8, &count), "a processor is there twice");
    assert_string_equal(amb_cpus_parse("0-8", list, 8, &count), "too many processors");
    assert_null(amb_cpus_parse("0-7", list, 8, &count));
}

static void test_a_set_is_written_as_a_list(void **state)
{
    (void)state;
    struct amb_cpus cpus = {{0}};
    char text[64];
    assert_string_equal(amb_cpus_format(&cpus, text, sizeof(text)), "");
    assert_int_equal(amb_cpus_count(&cpus), 0);
    amb_cpus_add(&cpus, 0);
    amb_cpus_add(&cpus, 1);
    amb_cpus_add(&cpus, 63);
    amb_cpus_add(&cpus, 64);
    amb_cpus_add(&cpus, 70);
    amb_cpus_add(&cpus, 8191);
    assert_string_equal(amb_cpus_format(&cpus, text, sizeof(text)), "0-1,63-64,70,8191");
    assert_string_equal(amb_cpus_format(&cpus, text, 16), "0-1,63-64,70...");
    assert_string_equal(amb_cpus_format(&cpus, text, 4), "...");
    assert_int_equal(amb_cpus_count(&cpus), 6);
    assert_false(amb_cpus_has(&cpus, 8192));
}

static void test_a_list_of_the_kernel_s_is_counted(void **state)
{
    (void)state;
    assert_int_equal(amb_cpus_listed("0\n"), 1);
    assert_int_equal(amb_cpus_listed("0-1\n"), 2);
    assert_int_equal(amb_cpus_listed("0-3,8,10-11"), 7);
    static const char *const bad[] = {"", "\n", "x", "0-", "3-1", "0,", "0 1", "0-8192", "-1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(amb_cpus_listed(bad[i]), 0);
    }
}

/* Control groups ------------------------------------------------------------------------------ */

static char root[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/amb-cpus-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command); /* NOLINT: a folder of our own */
}

/* Makes the folders of the path, too. */
static void put(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = '\0';
        (void)mkdir(path, 0700);
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void test_the_least_quota_on_the_way_up_counts(void **state)
{
    (void)state;
    put("a/cpu.max", "400000 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    put("a/b/c/cpu.max", "650000 100000\n");
    assert_int_equal(amb_cpus_quota("0::/a/b/c\n", root), 4000);
    assert_int_equal(amb_cpus_quota("0::/a/b\n", root), 4000);
    assert_int_equal(amb_cpus_quota("0::/a/b/c/d\n", root), 4000); /* It is not there. */
    put("a/b/c/cpu.max", "250000 100000\n");
    assert_int_equal(amb_cpus_quota("0::/a/b/c\n", root), 2500);
    put("a/b/c/cpu.max", "50000 100000\n");
    assert_int_equal(amb_cpus_quota("0::/a/b/c\n", root), 500);
    assert_int_equal(amb_cpus_quota("0::/\n", root), UINT_MAX);
}

static void test_a_share_is_whole_processors_or_begun_ones(void **state)
{
    (void)state;
    static const unsigned expected[][3] = {{1, 1, 1},    {500, 1, 1},          {1000, 1, 1},
                                           {1001, 1, 2}, {1500, 1, 2},         {2000, 2, 2},
                                           {3999, 3, 4}, {8192000, 8192, 8192}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(amb_cpus_whole(expected[i][0]), expected[i][1]);
        assert_int_equal(amb_cpus_begun(expected[i][0]), expected[i][2]);
    }
    assert_true(amb_cpus_whole(UINT_MAX) > AMB_CPUS_MAX); /* no quota */
    assert_true(amb_cpus_begun(UINT_MAX) > AMB_CPUS_MAX);
}

/* A container whose group is named as the host sees it: the mounted root is its own. */
static void test_a_containers_own_group_is_the_root(void **state)
{
    (void)state;
    put("cpu.max", "300000 100000\n");
    assert_int_equal(amb_cpus_quota("0::/docker/0123\n", root), 3000);
    assert_int_equal(amb_cpus_quota("0::/../../other\n", root), 3000);
}

static void test_version_one_has_two_files(void **state)
{
    (void)state;
    put("cpu,cpuacct/x/cpu.cfs_quota_us", "600000\n");
    put("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("cpuset/x/cpu.cfs_quota_us", "100000\n"); /* not the controller */
    put("cpuset/x/cpu.cfs_period_us", "100000\n");
    const char *groups = "5:cpuset:/x\n4:cpu,cpuacct:/x\n1:name=systemd:/x\n";
    assert_int_equal(amb_cpus_quota(groups, root), 6000);
    assert_int_equal(amb_cpus_quota("4:cpu,cpuacct:/\n", root), UINT_MAX);
}

static void test_what_is_no_quota_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "\n", "0::", "::", "4:cpu", "0:/", "4:cpu:", ":::\n:"};
    put("cpu.max", "words\n");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(amb_cpus_quota(bad[i], root), UINT_MAX);
    }
    put("cpu.max", "0 0\n");
    assert_int_equal(amb_cpus_quota("0::/\n", root), UINT_MAX);
    put("cpu.max", "-5 100000\n");
    assert_int_equal(amb_cpus_quota("0::/\n", root), UINT_MAX);
    put("cpu.max", "1 100000\n"); /* one that is hardly there */
    assert_int_equal(amb_cpus_quota("0::/\n", root), 1);
    put("cpu.max", "9223372036854775807 100000\n"); /* and one that limits nothing */
    assert_int_equal(amb_cpus_quota("0::/\n", root), AMB_CPUS_MAX * AMB_CPUS_ONE);
}

/* This machine -------------------------------------------------------------------------------- */

static unsigned around; /* before a thread is bound */

static void *bind_to_last(void *arg)
{
    struct amb_cpus cpus;
    unsigned *bound = arg;
    assert_true(amb_cpus_allowed(&cpus));
    for (unsigned cpu = 0; cpu < AMB_CPUS_MAX; cpu++) {
        *bound = amb_cpus_has(&cpus, cpu) ? cpu : *bound;
    }
    assert_true(amb_cpus_bind(*bound));
    assert_true(amb_cpus_allowed(&cpus));
    assert_int_equal(amb_cpus_count(&cpus), 1);
    assert_true(amb_cpus_has(&cpus, *bound));
    assert_int_equal(sched_getcpu(), (int)*bound);
    assert_int_equal(amb_cpus_usable(), 1); /* by its mask */
    assert_int_equal(amb_cpus_around(), around);
    return NULL;
}

static void test_a_thread_is_bound_alone(void **state)
{
    (void)state;
    struct amb_cpus before, after;
    unsigned bound = 0;
    pthread_t thread;
    assert_true(amb_cpus_allowed(&before));
    unsigned usable = amb_cpus_usable();
    around = amb_cpus_around();
    assert_true(around >= usable);
    assert_true(usable >= 1 && usable <= amb_cpus_count(&before));
    assert_int_equal(pthread_create(&thread, NULL, bind_to_last, &bound), 0);
    (void)pthread_join(thread, NULL);
    assert_true(amb_cpus_allowed(&after));
    assert_memory_equal(&before, &after, sizeof(before));
    assert_false(amb_cpus_bind(AMB_CPUS_MAX));
    assert_false(amb_cpus_bind(AMB_CPUS_MAX - 1)); /* No machine of ours has it. */
}

#define G(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_keeps_its_order),
        cmocka_unit_test(test_what_is_no_list_is_refused),
        cmocka_unit_test(test_a_set_is_written_as_a_list),
        cmocka_unit_test(test_a_list_of_the_kernel_s_is_counted),
        G(test_the_least_quota_on_the_way_up_counts),
        cmocka_unit_test(test_a_share_is_whole_processors_or_begun_ones),
        G(test_a_containers_own_group_is_the_root),
        G(test_version_one_has_two_files),
        G(test_what_is_no_quota_is_none),
        cmocka_unit_test(test_a_thread_is_bound_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
