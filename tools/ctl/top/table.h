/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a lens, made of one sample of answers, with the rates since the sample before.
 *
 *   answers ─► amb_top_table_make ─► rows ─► amb_top_table_show ─► those that are shown, in order
 *   the table before ──┘
 *
 * A counter that has become smaller is of another life: it has no rate. Neither has a row that was
 * not there before.
 * Threads: any. Memory: a table holds references to its answers; amb_top_table_free gives all back.
 */
#pragma once

#include "tools/ctl/top/lens.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_TOP_FILTER_MAX 128u

struct amb_top_row {
    const json_t *json;                  /* its object in the answer */
    double counted[AMB_TOP_COLUMNS_MAX]; /* the figure as it came */
    double value[AMB_TOP_COLUMNS_MAX];   /* of a rate: each second */
    uint32_t known;                      /* a bit for each column that has a value */
    uint32_t has_counted;                /* the same of `counted` */
};

struct amb_top_table {
    const struct amb_top_lens *lens;
    json_t *answer; /* of the view; NULL: there was none */
    json_t *by_id;  /* id: the number of its row */
    struct amb_top_row *rows;
    size_t count;
    uint64_t not_shown; /* objects that the broker has no figures of */
    int64_t at_ns;      /* when the answers came, of any steady clock */
};

/* How rows are chosen and ordered. */
struct amb_top_order {
    size_t column;
    bool is_reverse;                 /* small numbers first, or texts from z on */
    char filter[AMB_TOP_FILTER_MAX]; /* rows in one of whose texts this occurs; "": all */
};

/* The figure of a key in an object: a number, or the sum of several, "a+b". False: one is not
 * there. */
bool amb_top_figure(const json_t *object, const char *key, double *out);
/* Of answers, as the broker gave them: the view's, then those of lens->also; each may be NULL.
 * before: NULL, or of the same lens. NULL: no memory. */
struct amb_top_table *amb_top_table_make(const struct amb_top_lens *lens, json_t *const answers[3],
                                         int64_t at_ns, const struct amb_top_table *before);
void amb_top_table_free(struct amb_top_table **table);
/* The numbers of the rows that are shown, in their order; for free(). *count: how many. NULL: no
 * memory. */
size_t *amb_top_table_show(const struct amb_top_table *table, const struct amb_top_order *order,
                           size_t *count);
/* The text of a column in a row; "": it has none. */
const char *amb_top_row_text(const struct amb_top_row *row, const struct amb_top_column *column);
