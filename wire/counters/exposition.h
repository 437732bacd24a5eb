/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of the broker and its workers as Prometheus reads them: its text format 0.0.4, or
 * OpenMetrics 1.0. Names, units and help are those of the image's metric table.
 *
 *   BROKER, WORKER rows   a family each; of a worker with the label `worker`
 *   HISTOGRAM             buckets, count, and as sum the row NAME_sum_seconds
 *   RECENT                a gauge
 *   TEXT, ID              none: a label of others, or a number that names something
 *
 * Objects have no place here: names of topics grow without bound.
 *
 * Threads: any. Memory: one text.
 */
#pragma once

#include "wire/counters/image.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum amb_exposition_form {
    AMB_EXPOSITION_PROMETHEUS,
    AMB_EXPOSITION_OPENMETRICS,
};

/* Series that are of the header and not of the table. */
struct amb_exposition_extra {
    const char *name, *help;
    bool is_info;
};
#define AMB_EXPOSITION_EXTRAS 2u
extern const struct amb_exposition_extra amb_exposition_extras[AMB_EXPOSITION_EXTRAS];

/* The media type of that form, static. */
const char *amb_exposition_type(enum amb_exposition_form form);
/* A text as it stands there, with has_quotes between quotes. Bytes that are no UTF-8 are replaced.
 */
void amb_exposition_escape(FILE *out, const char *text, bool has_quotes);
/* The lines before the samples of a family. is_open: as OpenMetrics. */
void amb_exposition_head(FILE *out, const char *name, const char *type, const char *help,
                         bool is_open);
/* The text and its length, for free(); NULL: no memory. now_ns: of the broker's clock. */
char *amb_exposition(const struct amb_counters_image *image, enum amb_exposition_form form,
                     uint64_t now_ns, size_t *len_out);
