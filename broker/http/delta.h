/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a view between two moments. A view is an object of rows, by a key that tells rows
 * apart: {"a.b|normal|": {"messages": 7, ...}, ...}. `status` is one row, by the key "".
 *
 * Threads: any. Memory: JSON, the caller's.
 */
#pragma once

#include "wire/counters/image.h"

#include <jansson.h>

/* The rows of a view's answer, by key. view: its name. NULL: no memory, or not an answer. */
json_t *amb_delta_rows(const char *view, json_t *answer);
/* {"set": {KEY: {COLUMN: VALUE, ...}}, "gone": [KEY, ...]}, either left out where it is empty. A
 * row that is in `before` has the columns that differ, a new one all. An empty object: no change.
 * NULL: no memory. */
json_t *amb_delta_of(json_t *before, json_t *now);
/* {COLUMN: [METRIC, KIND, UNIT, HELP], ...} of a view's columns. NULL: no memory. */
json_t *amb_delta_columns(const struct amb_counters_image *image, const char *view);
