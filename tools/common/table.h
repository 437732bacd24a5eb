/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON for people: what a broker or a measurement says as JSON, printed as aligned text.
 * It knows no field by name, only shapes:
 *   an array of objects      a table, one column for each key met, in the order met
 *   an object                "key  value" lines, inner objects as "key.inner"; arrays of objects
 *                            in it follow as tables
 * One rule for numbers: bytes are IEC (1.50 MiB). Times have three digits and their unit (1.25 ms),
 * or two units (3 h 5 min). Moments are dates in UTC, and all others are plain. The unit of a
 * column is that of the form. Without one there, keys that end in "bytes" or "_ns" hold sizes and
 * times. Control characters in texts, which may come from any client, and bytes that are no UTF-8
 * are printed as \xNN. Columns are laid out by libsmartcols. Threads: any. Memory: freed before
 * return.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

void amb_table_print(json_t *value, FILE *out);

struct amb_table_form {
    /* At most so many characters; 0: any. Columns that do not fit are left out. The first of them
     * is cut instead where it has texts. */
    size_t width;
    bool has_no_head;
    /* Of columns, as wire/counters/units.h has them; borrowed. NULL: none is known. */
    json_t *units;
};

/* The same in a form. Returns how many columns were left out. */
size_t amb_table_print_as(json_t *value, const struct amb_table_form *form, FILE *out);
