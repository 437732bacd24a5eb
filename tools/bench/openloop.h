/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late messages are that are due at a rate, whatever became of those before them.
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* bench->rate > 0. Prints nothing and leaves a result; the reason of a failure has been said. */
enum amb_exit amb_bench_open_loop(const struct amb_bench *bench, json_t **out);
