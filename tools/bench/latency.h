/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late messages are: half of a round trip, or an open loop where there is a rate.
 * Threads: one, that of the parent, which never connects.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

/* Prints nothing and leaves a result; the reason of a failure has been said. */
enum amb_exit amb_bench_latency(const struct amb_bench *bench, json_t **out);
