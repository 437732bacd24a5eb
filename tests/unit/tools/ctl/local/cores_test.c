/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/local/cores, on trees of sysfs that the test makes. */
#include "tools/ctl/local/cores.h"

#include "tests/support/link/ucx_tree.h"

#include <sys/wait.h>

static void put_gpu(const char *pci, const char *node)
{
    char name[128];
    (void)snprintf(name, sizeof(name), "bus/pci/devices/%s/numa_node", pci);
    tree_text(name, node);
}

static void test_cores_are_those_of_the_node_of_the_slot(void **state)
{
    (void)state;
    struct amb_local_cores cores;
    char list[64];
    put_gpu("0000:c1:00.0", "1\n");
    tree_text("devices/system/node/node1/cpulist", "8-11,24\n");
    assert_true(amb_local_cores_near(tree_root, "0000:C1:00.0", &cores)); /* As drivers write it. */
    assert_int_equal(cores.node, 1);
    assert_string_equal(amb_cpus_format(&cores.cpus, list, sizeof(list)), "8-11,24");
}

static void test_machine_that_does_not_say_leaves_all_cores(void **state)
{
    (void)state;
    struct amb_local_cores cores;
    static const struct {
        const char *pci, *node, *list;
    } cases[] = {
        {"0000:01:00.0", "-1\n", "0-3\n"},   {"0000:02:00.0", "2\n", "\n"},
        {"0000:03:00.0", "3\n", "x\n"},      {"0000:04:00.0", "4\n", "0-99999\n"},
        {"0000:05:00.0", "", "0-3\n"},       {"0000:06:00.0", "nodes\n", "0-3\n"},
        {"0000:07:00.0", "5000\n", "0-3\n"}, {"0000:08:00.0", "8\n", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char name[64];
        put_gpu(cases[i].pci, cases[i].node);
        (void)snprintf(name, sizeof(name), "devices/system/node/node%d/cpulist",
                       atoi(cases[i].node));
        if (cases[i].list != NULL && atoi(cases[i].node) >= 0) {
            tree_text(name, cases[i].list);
        }
        assert_false(amb_local_cores_near(tree_root, cases[i].pci, &cores));
    }
    assert_false(amb_local_cores_near(tree_root, "0000:ff:00.0", &cores)); /* No such slot. */
    assert_false(amb_local_cores_near("/nowhere", "0000:01:00.0", &cores));
}

static void test_name_that_is_no_address_is_not_looked_up(void **state)
{
    (void)state;
    struct amb_local_cores cores;
    static const char *const names[] = {"", "../../x", "..", "0000:01:00.0/x",
                                        "0000000000000000000000000000000000"};
    tree_text("bus/pci/devices/numa_node", "0\n"); /* Where ".." and "" would lead. */
    tree_text("bus/pci/numa_node", "0\n");
    tree_text("devices/system/node/node0/cpulist", "0\n");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_false(amb_local_cores_near(tree_root, names[i], &cores));
    }
}

static void test_cores_that_may_not_be_used_are_left_out(void **state)
{
    (void)state;
    struct amb_local_cores cores = {.node = 0};
    struct amb_cpus allowed;
    unsigned first = 0;
    assert_true(amb_cpus_allowed(&allowed));
    while (!amb_cpus_has(&allowed, first)) {
        first++;
    }
    amb_cpus_add(&cores.cpus, AMB_CPUS_MAX - 1);
    assert_false(amb_local_cores_keep_allowed(&cores));
    assert_true(amb_cpus_has(&cores.cpus, AMB_CPUS_MAX - 1)); /* For the warning. */
    amb_cpus_add(&cores.cpus, first);
    assert_true(amb_local_cores_keep_allowed(&cores));
    assert_int_equal(amb_cpus_count(&cores.cpus), 1);
    pid_t pid = fork();
    if (pid == 0) {
        struct amb_cpus now;
        _exit(amb_local_cores_use(&cores) && amb_cpus_allowed(&now) && amb_cpus_has(&now, first) &&
                      amb_cpus_count(&now) == 1
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cores_are_those_of_the_node_of_the_slot, tree_make,
                                        tree_remove),
        cmocka_unit_test_setup_teardown(test_machine_that_does_not_say_leaves_all_cores, tree_make,
                                        tree_remove),
        cmocka_unit_test_setup_teardown(test_name_that_is_no_address_is_not_looked_up, tree_make,
                                        tree_remove),
        cmocka_unit_test(test_cores_that_may_not_be_used_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
