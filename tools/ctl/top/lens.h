/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that top shows, as data. A table has a view of the broker, and columns. Some columns
 * are sums over rows of another view.
 *   lens ─► query, also ─► answers      id ─► names a row, so that it is found in the next answer
 * Threads: any. Memory: constants.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_TOP_COLUMNS_MAX 16u

enum amb_top_kind {
    AMB_TOP_TEXT,
    AMB_TOP_COUNT,
    AMB_TOP_BYTES,
    AMB_TOP_NS,
    AMB_TOP_NUMBER,    /* it names something: a worker */
    AMB_TOP_RATE,      /* of a counter, each second */
    AMB_TOP_BYTE_RATE, /* the same, of bytes */
};

struct amb_top_column {
    const char *title; /* "LAG" */
    const char *key;   /* of a row; "a+b" is their sum */
    enum amb_top_kind kind;
    /* Of another view: the sum of the rows there whose `by` is this row's `own`. NULL: of this. */
    const char *of, *by, *own;
    bool is_loss; /* above 0 the row stands out */
    const char *help;
};

struct amb_top_lens {
    const char *query;                    /* the view, "topics" */
    const char *one;                      /* a row, "topic" */
    const char *ids[3];                   /* keys that name a row together */
    const char *also[2];                  /* further views that columns are of */
    const struct amb_top_column *columns; /* the first one names the row for people */
    size_t count;                         /* of these */
    size_t sort;                          /* the column that rows are in the order of at first */
    bool has_match;                       /* does the view take a pattern? */
};

enum amb_top_view {
    AMB_TOP_TOPICS,
    AMB_TOP_SUBS,
    AMB_TOP_CLIENTS,
    AMB_TOP_WORKERS,
    AMB_TOP_QUEUES,
    AMB_TOP_VIEWS, /* so many */
};

const struct amb_top_lens *amb_top_lens(enum amb_top_view view);
/* The view of that name, which the table of command lines has found good. */
enum amb_top_view amb_top_view_named(const char *query);
/* The column of that title. SIZE_MAX: none. Case does not matter. */
size_t amb_top_column(const struct amb_top_lens *lens, const char *title);
/* The counters of a worker that are losses of readers. */
#define AMB_TOP_LOST "lost_slow+lost_trimmed+lost_expired+lost_purged"
