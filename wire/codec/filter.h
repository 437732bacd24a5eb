/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content filters: a condition on a message's properties, as text, and as the few tests it is made
 * of.
 *
 *   expression  and-list { "or" and-list }
 *   and-list    term { "and" term }
 *   term        "not" term | "(" expression ")" | test
 *   test        name op value | "has" name
 *   op          =  !=  <  <=  >  >=  ^=  (begins with)
 *   value       'text' ('' is a quote in it), or a decimal number
 *   name        of a property: letters, digits and _ - . $, or "any text" in double quotes;
 *               $key and $content-type are the message's key and content type
 *
 * A value in quotes is compared byte by byte, a number with properties that are decimal numbers. A
 * test of a property that is not there, or is no number where it must be one, is false.
 *
 * Threads: any; a filter does not change. Memory: one allocation. Its cost is bounded by the maxima
 * here; properties are those of a checked blob.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_FILTER_TEXT_MAX 1024u /* bytes */
#define AMB_FILTER_TESTS_MAX 32u
#define AMB_FILTER_DEPTH_MAX 16u /* parentheses and nots within each other */

struct amb_filter;
struct amb_props_index;

/* The fault, in a sentence without the text itself, and how many bytes of the text are before
 * it. */
struct amb_filter_error {
    const char *why;
    size_t at;
};

/* EINVAL: *error says why. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_filter_parse(const char *text, size_t len,
                                                struct amb_filter **out,
                                                struct amb_filter_error *error);
void amb_filter_free(struct amb_filter **filter);
/* Bytes of the heap that it takes. */
size_t amb_filter_heap(const struct amb_filter *filter);

/* A message as filters are asked about it. */
struct amb_filter_message {
    const uint8_t *props; /* a checked blob */
    uint32_t len;
    const struct amb_props_index *index; /* of it; NULL: each test searches the blob */
    uint32_t steps; /* the cost of answers, added up: tests, and properties that were looked at */
};

/* Does it pass? */
bool amb_filter_match_message(const struct amb_filter *filter, struct amb_filter_message *message);
/* The same of a blob without an index. */
bool amb_filter_match(const struct amb_filter *filter, const uint8_t *props, uint32_t props_len);
