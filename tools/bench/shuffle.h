/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that exchange partitions, each with all others, so many times: the exchange of a
 * distributed merge (dask-cuda's local_cudf_merge).
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* Prints nothing and leaves a result; the reason of a failure has been said. */
enum amb_exit amb_bench_shuffle(const struct amb_bench *options, json_t **out);
