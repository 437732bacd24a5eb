/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes ("64M", powers of 1024) and times ("500ms") as people write them in configurations and
 * options. Exact or refused: no fractions, no signs, no blanks, no silent overflow. Lists of words,
 * and texts for errors.
 * Threads: any. Memory: pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TEXT_MAX 32u /* any formatted size or time fits */

/* Digits only. */
bool amb_text_parse_count(const char *text, uint64_t *out);
/* Digits and nothing, K, M, G or T. */
bool amb_text_parse_size(const char *text, uint64_t *out);
/* Digits and ns, us, ms, s, m, h or d; "0" needs no unit. At most INT64_MAX - 1 ns. */
bool amb_text_parse_time(const char *text, int64_t *out_ns);

/* The shortest exact form, as the parsers above take it. */
void amb_text_format_size(uint64_t bytes, char *out, size_t size);
void amb_text_format_time(int64_t ns, char *out, size_t size);
/* A time since 1970 in UTC, as "2026-11-27T09:05:00.123Z", with 1 to 9 digits behind the point. */
void amb_text_format_date(int64_t time_ns, unsigned digits, char *out, size_t size);
/* Two digits of 0-9, a-f for each byte. out has 2 * len + 1 bytes. */
void amb_text_format_hex(const void *bytes, size_t len, char *out);

/*
 * Writes at most `size` - 1 bytes of text to out for an error message: what does not print becomes
 * '?', what is too long ends in "...". Returns out.
 */
const char *amb_text_show(const char *text, char *out, size_t size);

/* Does each byte print, as ASCII, and is none a blank? */
bool amb_text_is_visible(const void *text, size_t len);

/* Has it a control character of ASCII? */
bool amb_text_has_control(const char *text, size_t len);

/* Is the word one of a list as "tcp,self"? */
bool amb_text_list_has(const char *list, const char *word);

/* Edit distance (insert, delete, replace, swap of neighbours), at most `limit` + 1. */
unsigned amb_text_distance(const char *a, const char *b, unsigned limit);
