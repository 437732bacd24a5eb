/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two parties that exchange messages of one size, so many times: the workload of
 * ucxx.benchmarks.send_recv.
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* Prints nothing and leaves a result; the reason of a failure has been said. */
enum amb_exit amb_bench_sendrecv(const struct amb_bench *options, json_t **out);
