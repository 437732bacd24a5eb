/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When messages of a rate are due.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdint.h>

#define AMB_SCHEDULE_MAX_NS INT64_C(1000000000000000000) /* 31 years: later is never */

/* So long take so many messages, of so many a second; at most AMB_SCHEDULE_MAX_NS. rate: above 0.
 */
int64_t amb_schedule_ns(double messages, double rate);
