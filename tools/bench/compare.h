/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two results of broker-bench side by side: the cells that both have, and those that became slower.
 * Threads: any. Memory: the caller owns what is returned.
 */
#pragma once

#include <jansson.h>

/*
 * a, b: one result or an array of them, b the later one. Cells are the same if everything that was
 * asked for is (workload, link, size, ...). Returns a row for each cell of b that a has too, with
 * ratios b / a. There is none without a rate or a median that both have. `slower` counts rows that
 * are not "ok" any more, and rows that are worse by more than tolerance (0.1: a tenth). Worse is a
 * lower rate, or a higher median latency. Costs and tails are only shown.
 */
json_t *amb_compare(const json_t *a, const json_t *b, double tolerance, unsigned *slower);
