/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preferences for a node, as the kernel has them. A machine with one node, as most are, has the
 * calls; only one with several shows that pages follow.
 */
#include "wire/base/numa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define PREFERRED 1

/* The thread's policy; the node that it prefers, or -1. */
static int policy_now(int *node)
{
    int mode = -1;
    unsigned long mask[AMB_NUMA_MAX / (8 * sizeof(unsigned long))] = {0};
    if (syscall(SYS_get_mempolicy, &mode, mask, AMB_NUMA_MAX + 1, NULL, 0) != 0) {
        skip();
    }
    *node = -1;
    for (unsigned bit = 0; bit < AMB_NUMA_MAX; bit++) {
        if (mask[bit / 64] >> bit % 64 & 1) {
            *node = (int)bit;
        }
    }
    return mode;
}

static void test_a_node_is_preferred_until_any_is(void **state)
{
    (void)state;
    int node, here = amb_numa_here();
    (void)policy_now(&node);
    if (here == AMB_NUMA_ANY || !amb_numa_prefer(here)) {
        skip();
    }
    assert_int_equal(policy_now(&node), PREFERRED);
    assert_int_equal(node, here);
    assert_true(amb_numa_prefer(AMB_NUMA_ANY));
    assert_int_equal(policy_now(&node), 0);
    assert_int_equal(node, -1);
}

static void test_a_node_that_is_not_there_is_any(void **state)
{
    (void)state;
    int node;
    (void)policy_now(&node);
    static const int bad[] = {AMB_NUMA_MAX - 1, AMB_NUMA_MAX, 1 << 30, -2};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)amb_numa_prefer(0);
        if (!amb_numa_prefer(bad[i])) {
            skip();
        }
        assert_int_equal(policy_now(&node), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_is_preferred_until_any_is),
        cmocka_unit_test(test_a_node_that_is_not_there_is_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
