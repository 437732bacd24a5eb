/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact percentiles of stored samples, by nearest rank.
 * Threads: the caller's. Memory: the caller's array, sorted in place.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Ascending order, as amb_percentile() needs it. */
void amb_percentile_sort(uint32_t *samples, size_t count);
/* The smallest sample that at least `fraction` (0 to 1) of all are not above; 0 without samples. */
uint32_t amb_percentile(const uint32_t *sorted, size_t count, double fraction);
