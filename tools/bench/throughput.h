/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages a second, from publishers to subscribers.
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* Prints nothing and leaves a result; the reason of a failure has been said. */
enum amb_exit amb_bench_throughput(const struct amb_bench *bench, json_t **out);
