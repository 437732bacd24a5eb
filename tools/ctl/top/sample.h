/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at a broker: its status, its workers, and the rows of a view, of answers that came
 * together. It also has the changes since the look before.
 *
 *   source (a broker, or a counters file) ─► answers ─► tables
 *
 * Threads: one. Memory: a sample owns its tables.
 */
#pragma once

#include "tools/ctl/top/lens.h"
#include "tools/ctl/top/table.h"
#include "wire/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_TOP_NOTE_MAX 320u

/* Gives the answers to all queries, or says why not. answers[i] NULL: that one was refused, and the
 * note says why. The note is "" where a broker has answered, and else says whose figures these are.
 * Any other status: there are no answers at all. */
typedef enum amb_status (*amb_top_ask)(void *arg, const char *const *queries, size_t count,
                                       json_t **answers, char note[AMB_TOP_NOTE_MAX]);

struct amb_top_sample {
    json_t *status;                /* NULL: the broker does not tell this user */
    struct amb_top_table *workers; /* for the totals */
    struct amb_top_table *table;   /* of the view */
    bool has_restarted;            /* another broker answers than before */
    int64_t at_ns, real_ns;        /* steady, and since 1970 */
    char note[AMB_TOP_NOTE_MAX];
};

/* match: a pattern for the broker, or NULL. before: NULL, or the look before this. Its tables are
 * compared where they are of the same view and broker. *out on AMB_OK alone, for
 * amb_top_sample_free; the note always. */
AMB_MUST_CHECK enum amb_status amb_top_sample_take(amb_top_ask ask, void *arg,
                                                   enum amb_top_view view, const char *match,
                                                   const struct amb_top_sample *before,
                                                   struct amb_top_sample **out,
                                                   char note[AMB_TOP_NOTE_MAX]);
void amb_top_sample_free(struct amb_top_sample **sample);
/* The sum of a column, by its title, over all rows. False: no row has a value. */
bool amb_top_sample_sum(const struct amb_top_table *table, const char *title, double *out);
