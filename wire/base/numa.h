/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory near a processor, on machines that have some nearer than other. A page lies where the
 * thread that brought it runs, or where that thread prefers. Where the system knows no nodes, or
 * lets nobody say so (a container without CAP_SYS_NICE), nothing happens.
 *
 * Threads: any; a preference is its thread's. Memory: none.
 */
#pragma once

#include <stdbool.h>

#define AMB_NUMA_MAX 1024u /* nodes: as many as Linux can have */
#define AMB_NUMA_ANY (-1)

/* The node of the processor that the calling thread runs on; AMB_NUMA_ANY: unknown. */
int amb_numa_here(void);
/* Pages that this thread brings from now on come from that node, while it has some. AMB_NUMA_ANY,
 * and any number that no node has: from the nearest. False: the system does not do that. */
bool amb_numa_prefer(int node);
