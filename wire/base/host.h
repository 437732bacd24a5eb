/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of this machine, and those of the namespaces that a process is in. Two processes
 * compare these numbers to know whether they could share memory. Threads: any. Memory: none.
 */
#pragma once

#include <stdint.h>

/* A number of the kernel that runs now, the same in all its namespaces; 0: unknown. root: "", or,
 * in tests, a folder that has proc. */
uint64_t amb_host_id(const char *root);
/* This process's namespace of a kind ("pid", "ipc", "net"), as the kernel numbers it; 0: unknown.
 */
uint64_t amb_host_namespace(const char *kind);
