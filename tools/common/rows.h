/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer as rows of columns: JSON lines, CSV, a choice of columns. It knows shapes, and no field
 * names. Rows are an array of objects, alone or as the only array in an object. Any other object is
 * one row.
 * Threads: any. Memory: the caller's references.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Is it an array of objects? */
bool amb_rows_are(const json_t *array);
/* An object whose inner objects have become keys as "a.b"; a new reference. */
json_t *amb_rows_flattened(json_t *object);
/* A row's text of that name; "": it has none. */
const char *amb_rows_text(const json_t *row, const char *key);
/* Its number; 0: it has none, or one below 0. */
uint64_t amb_rows_number(const json_t *row, const char *key);
/* A new reference to the rows; inner objects have become keys as "a.b". NULL: there are none, or no
 * memory. */
json_t *amb_rows_of(json_t *value);
/* Rows with these columns alone, "a,b", in this order; a new reference. NULL: a name is none of
 * them, and `why` has the view's columns. Where there are no rows, any name is good. */
json_t *amb_rows_pick(const json_t *rows, const char *columns, char *why, size_t size);
/* One object a line. */
void amb_rows_print_jsonl(const json_t *rows, FILE *out);
/* As RFC 4180 has it, with "\n" as the end of lines: one column for each key met. Numbers are
 * plain. A text that a spreadsheet would take for a formula has an apostrophe before it. */
void amb_rows_print_csv(const json_t *rows, bool has_head, FILE *out);
