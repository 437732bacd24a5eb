/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of strangers on a terminal: a message's properties, a reply. What would drive the terminal
 * is shown as '.': control characters (C1 as well, which UTF-8 spells in two bytes) and what is no
 * UTF-8.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* keeps_lines: newlines and tabs stay. */
void amb_shown_put(FILE *out, const void *bytes, size_t len, bool keeps_lines);
