/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of strangers on a terminal: a message's properties, a reply. Characters that would drive the
 * terminal are shown as '.', and so are bytes that are no UTF-8. C1 is among these characters,
 * which UTF-8 spells in two bytes. Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* keeps_lines: newlines and tabs stay. */
void amb_shown_put(FILE *out, const void *bytes, size_t len, bool keeps_lines);
/* The same of a sentence in place, on one line: each byte of such a character becomes '?'. */
void amb_shown_clean(char *text);
/* Is it text: well-formed UTF-8, without control characters but tabs and the ends of lines? */
bool amb_shown_is_text(const void *bytes, size_t len);
/* The longest part from the start that has at most `max` bytes, and no part of a character. `bytes`
 * are text. */
size_t amb_shown_cut(const void *bytes, size_t len, size_t max);
