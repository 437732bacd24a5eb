/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throughput and latency of all sizes on all links.
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* Starts private brokers itself; *out is an array. Prints nothing; the reason of a failure has been
 * said. */
enum amb_exit amb_bench_matrix(const struct amb_bench *bench, json_t **out);
/* The matrix for people: one row for a size and link. */
json_t *amb_bench_matrix_rows(const json_t *results);
