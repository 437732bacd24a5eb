/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the counters: its name, its former one, its mode, and whether it can be had at all.
 *
 * Threads: where the broker starts. Memory: none.
 */
#pragma once

#include "wire/counters/image.h"

#include <stdbool.h>
#include <stddef.h>

/* Why `auto` takes no folder that is not in memory: the kernel holds up a store while it writes
 * that page out. */
#define AMB_COUNTERS_ON_DISK "the folder is on a disk, which would hold up workers"

struct amb_counters_options;

/* The file, of that size and all of it allocated, locked by this process. -1: `why` has the
 * reason. */
int amb_counters_file_open(const struct amb_counters_options *options, size_t size,
                           char why[AMB_COUNTERS_WHY_MAX]);
/* Is that file or folder in memory (tmpfs)? Also false where it is not there. */
bool amb_counters_file_is_in_memory(const char *path);
