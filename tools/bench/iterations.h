/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long each iteration of a workload took, and the figures of that: averages, medians, and on
 * request a row of each.
 *
 * Threads: any. Memory: the caller's; results are the caller's, too.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* took_ns[0..count): bytes were moved in each. Sorts it once the rows are made. Sets mb_per_s,
 * mb_per_s_median and total_s, and with wants_rows the array "iteration". MB: 10^6 bytes. */
void amb_iterations_add(int64_t *took_ns, uint64_t count, double bytes, bool wants_rows,
                        json_t *result);
/* The median of what amb_iterations_add has sorted; 0: there is nothing. */
int64_t amb_iterations_median(const int64_t *sorted_ns, uint64_t count);
/* The mean. */
double amb_iterations_mean(const int64_t *took_ns, uint64_t count);
