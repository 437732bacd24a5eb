/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of a view's columns, which each answer has. So a program that does not know a column
 * shows it right all the same:
 *
 *   {"topics": [ROW, ...], "units": {"bytes": "bytes", "messages": "messages"}}
 *
 * bytes, ns, s: a size, and spans of time. unix_s: seconds since 1970. bytes/s: a rate. "@COLUMN":
 * that column of the row has the unit. Others are numbers of something. A column without a unit is
 * not there.
 *
 * Threads: any. Memory: none of its own.
 */
#pragma once

#include "wire/counters/image.h"

#include <jansson.h>

#define AMB_COUNTERS_UNITS "units" /* the key in an answer */

/* Of the columns of that scope; a new reference. NULL: no memory. */
json_t *amb_counters_units(const struct amb_counters_image *image, enum amb_counters_scope scope);
