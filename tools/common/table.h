/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON for people: what a broker or a measurement says as JSON, printed as aligned text.
 * It knows no field by name, only shapes:
 *   an array of objects      a table, one column for each key met, in the order met
 *   an object                "key  value" lines, inner objects as "key.inner"; arrays of objects
 *                            in it follow as tables
 * Keys that end in "bytes" or "_ns" hold sizes and durations and are scaled. Control characters
 * in texts, which may come from any client, and bytes that are no UTF-8 are printed as \xNN.
 * Columns are laid out by libsmartcols. Threads: any. Memory: freed before return.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

void amb_table_print(json_t *value, FILE *out);

struct amb_table_form {
    size_t width; /* at most so many characters: columns that do not fit are left out; 0: any */
    bool has_no_head;
};

/* The same in a form. Returns how many columns were left out. */
size_t amb_table_print_as(json_t *value, const struct amb_table_form *form, FILE *out);
