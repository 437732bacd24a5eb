/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When messages of a rate are due.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdint.h>

#define AMB_SCHEDULE_MAX_NS INT64_C(1000000000000000000) /* 31 years: later is never */

/* How long so many messages take, at most AMB_SCHEDULE_MAX_NS. rate: messages a second, above 0. */
int64_t amb_schedule_ns(double messages, double rate);
