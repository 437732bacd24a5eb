/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that have a form of their own: places, ranges, lists of times, pairs, formats. Of each
 * form a reader, and its check for the table: NULL where the text is good, else a description of
 * the form. Threads: any. Memory: none.
 */
#pragma once

#include <amb/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_FORM_BACKOFF_MAX 16u

struct amb_form_place {
    enum amb_start start;
    uint64_t number;  /* of LAST_N and SEQ */
    int64_t ago_ns;   /* of TIME */
    const char *file; /* of POSITION; in the text */
};

/* "new", "first", "last", "last:N", "seq:N", "ago:T", "file:F". */
bool amb_form_place_read(const char *text, struct amb_form_place *out);
const char *amb_form_place_fault(const char *text);
/* The moment that "ago:T" is, in ns since 1970; 0: it is before that, as of "ago:forever". */
uint64_t amb_form_place_since(const struct amb_form_place *place, int64_t now_ns);

/* "OFFSET:LEN", LEN above 0. */
bool amb_form_range_read(const char *text, uint64_t *offset, uint64_t *len);
const char *amb_form_range_fault(const char *text);

/* "1,10,1m": up to AMB_FORM_BACKOFF_MAX times. */
bool amb_form_backoff_read(const char *text, int64_t out_ns[AMB_FORM_BACKOFF_MAX], uint32_t *count);
const char *amb_form_backoff_fault(const char *text);

/* One word: not empty, and without a blank. */
const char *amb_form_word_fault(const char *text);
/* "NAME=VALUE": a name of at least one byte. */
const char *amb_form_pair_fault(const char *text);
/* "KEY=VALUE", of a configuration. */
const char *amb_form_key_fault(const char *text);

/* A part of a format: a field's letter, or text. */
struct amb_form_piece {
    char field; /* of AMB_FORM_FIELDS; 0: text */
    const char *text;
    size_t len;
};
#define AMB_FORM_FIELDS "tpxlskPIh"

/* "%t %p\n": the piece at *at, which moves on. False: at the end, or **at begins a piece that is
 * none. */
bool amb_form_format_next(const char **at, struct amb_form_piece *out);
/* The text holds until the next call of this thread. */
const char *amb_form_format_fault(const char *text);
