/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of top as lines of text, for a terminal or as a block. It knows no terminal: lines are
 * handed on one by one, with a style.
 *
 *   name, release, time      totals      limits      a note
 *   views, order, filter
 *   titles
 *   rows, or the lines of help
 *   keys
 *
 * Threads: any. Memory: none of its own.
 */
#pragma once

#include "tools/ctl/top/sample.h"
#include "tools/ctl/top/state.h"

#include <stdbool.h>
#include <stddef.h>

enum amb_top_style {
    AMB_TOP_PLAIN,
    AMB_TOP_BOLD,
    AMB_TOP_TITLE, /* of columns */
    AMB_TOP_ALARM, /* it needs a hand */
    AMB_TOP_FAINT,
};

/* Text of UTF-8, at most as wide as the page. `line` counts from 0. */
typedef void (*amb_top_put)(void *arg, size_t line, enum amb_top_style style, const char *text);

struct amb_top_page {
    const struct amb_top_sample *sample; /* NULL: there is none yet */
    const char *notice;                  /* instead of the sample's note; "": none */
    bool is_alarm;                       /* the notice needs a hand */
    size_t width, height;                /* of the screen */
    bool has_utf8;
};

#define AMB_TOP_WIDTH_MAX 1000u /* wider screens are used up to here */
#define AMB_TOP_WIDTH_WIDE 240u /* of a block with all columns */

/* A screen. Sets state->line_count and page_size, and keeps `first` within them. */
void amb_top_page(const struct amb_top_page *page, struct amb_top_state *state, amb_top_put put,
                  void *arg);
/* A block: all rows, or the first `rows` where that is not 0. No keys, views and help. */
void amb_top_block(const struct amb_top_page *page, const struct amb_top_state *state, size_t rows,
                   amb_top_put put, void *arg);
