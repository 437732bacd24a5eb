/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as people write them: sizes in binary units, durations, and both back to short text.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "64", "64k", "1MiB", "2g" (binary, case does not matter). False: not such a text, or it does not
 * fit; *out is untouched then. */
bool amb_units_size(const char *text, uint64_t *out);
/* A whole number without a sign. */
bool amb_units_count(const char *text, uint64_t max, uint64_t *out);
/* "5" (seconds), "1.5s", "200ms", "50us", "10ns", "2m", "1h", "forever"; not negative. */
bool amb_units_duration(const char *text, int64_t *out_ns);
/* A positive number, "1000" or "2.5e6". */
bool amb_units_rate(const char *text, double *out);

/* A figure as a whole number; one that does not fit is the end of the scale. */
int64_t amb_units_whole(double value);

/* "512 B", "1.5 MiB": 3 significant digits. */
void amb_units_format_bytes(double bytes, char *out, size_t size);
/* "850 ns", "1.25 ms", "12.0 s", "3 h 5 min". */
void amb_units_format_ns(double ns, char *out, size_t size);
/* "850", "12.3 k", "4.56 M": decimal thousands. */
void amb_units_format_count(double count, char *out, size_t size);
