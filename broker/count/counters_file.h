/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the counters: its name, its former one, its mode, and whether it can be had at all.
 *
 * Threads: where the broker starts. Memory: none.
 */
#pragma once

#include "wire/counters/image.h"

#include <stddef.h>

struct amb_counters_options;

/* The file, of that size and all of it allocated, locked by this process. -1: `why` has the
 * reason. */
int amb_counters_file_open(const struct amb_counters_options *options, size_t size,
                           char why[AMB_COUNTERS_WHY_MAX]);
