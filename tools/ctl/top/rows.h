/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block of top as JSON: rows with the figures that a page shows, for programs.
 * Threads: any. Memory: the caller's reference.
 */
#pragma once

#include "tools/ctl/top/sample.h"
#include "tools/ctl/top/state.h"

#include <jansson.h>
#include <stddef.h>

/* {"topics": [{"time_ns": ..., "topic": "a", "msg_per_s": 12.5, ...}, ...], "note": "..."}; a note
 * alone where there is one. Figures that are not known are null. rows: at most so many; 0: all. A
 * new reference; NULL: no memory. */
json_t *amb_top_rows(const struct amb_top_sample *sample, const struct amb_top_state *state,
                     size_t rows);
/* The key of a column there: "lag_bytes", "msg_per_s". Returns out. */
const char *amb_top_rows_key(const struct amb_top_column *column, char out[32]);
