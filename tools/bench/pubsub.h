/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only a publisher, or only a subscriber: one process each, for other machines.
 * Threads: one, besides libamb's own.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* Each prints nothing and leaves a result; the reason of a failure has been said. */
enum amb_exit amb_bench_pub(const struct amb_bench *bench, json_t **out);
enum amb_exit amb_bench_sub(const struct amb_bench *bench, json_t **out);
