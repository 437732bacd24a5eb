/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cell on a terminal: numbers as short text, and texts of strangers so that they are seen as
 * what they are. Characters that drive a terminal, that turn the direction of writing, or that have
 * no width are spelled: \x1b, \u202e. A wide character takes two places. So all texts keep to their
 * width, and nothing in them moves what stands beside them.
 * Threads: any, with one locale (LC_CTYPE). Memory: the caller's.
 */
#pragma once

#include "tools/ctl/top/lens.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes that a cell of `width` places may need, with its NUL: a wide character and two marks. */
#define AMB_TOP_CELL_BYTES(width) ((size_t)(width)*12u + 16u)

/* The text, cut to at most `width` places; a cut one ends with '~'. has_utf8: may there be
 * characters other than ASCII? Without it they are spelled. `size` is at least
 * AMB_TOP_CELL_BYTES(width). Returns the places that are used. */
size_t amb_top_text(const char *text, size_t width, bool has_utf8, char *out, size_t size);
/* A number as the kind has it, in at most 9 characters: "12.3 k", "1.50 MiB", "850 us". */
void amb_top_number(enum amb_top_kind kind, double value, char *out, size_t size);
