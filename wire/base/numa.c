/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/numa.h"

#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <linux/mempolicy.h>; the C library has no function for it. */
#define POLICY_DEFAULT 0
#define POLICY_PREFERRED 1

#define WORD_BITS (8 * sizeof(unsigned long))

int amb_numa_here(void)
{
    unsigned cpu, node;
    return getcpu(&cpu, &node) == 0 && node < AMB_NUMA_MAX ? (int)node : AMB_NUMA_ANY;
}

bool amb_numa_prefer(int node)
{
    unsigned long mask[AMB_NUMA_MAX / WORD_BITS] = {0};
    if (node >= 0 && node < (int)AMB_NUMA_MAX) {
        mask[(unsigned)node / WORD_BITS] = 1UL << (unsigned)node % WORD_BITS;
        /* The kernel takes one bit less than it is told. */
        if (syscall(SYS_set_mempolicy, POLICY_PREFERRED, mask, AMB_NUMA_MAX + 1) == 0) {
            return true;
        }
    }
    return syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0) == 0;
}
