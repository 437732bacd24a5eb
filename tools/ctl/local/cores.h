/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processors near a GPU: those of the NUMA node that its PCI slot belongs to, as sysfs has it.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "wire/base/cpus.h"

#include <stdbool.h>

struct amb_local_cores {
    int node;
    struct amb_cpus cpus;
};

/* sysfs: "/sys", or a tree like it. pci: "0000:C1:00.0". False: the machine does not say, as one
 * that has a single node. */
bool amb_local_cores_near(const char *sysfs, const char *pci, struct amb_local_cores *out);
/* Those of them that this process may use. False: none; *cores stays as it is then. */
bool amb_local_cores_keep_allowed(struct amb_local_cores *cores);
/* The calling thread, and those that it starts, run there alone. False: errno has the reason. */
bool amb_local_cores_use(const struct amb_local_cores *cores);
