/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query of a view: its words (view.h), taken apart and checked.
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/codec/topic.h"
#include "wire/counters/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_counters_source {
    const char *name;
    enum amb_counters_scope scope; /* 0: of none alone */
    const char *unlisted;          /* the column of the broker that counts those without a slot */
    const char *tenant;            /* the metric that is the number of an object's tenant */
    const char *sort;              /* the column that sorts it by itself; NULL: as they come */
};

struct amb_counters_query {
    const struct amb_counters_source *source;
    char match[AMB_TOPIC_MAX + 1]; /* "": all */
    size_t match_len;
    const struct amb_counters_metric *sort; /* NULL: as they came */
    uint64_t top;                           /* rows; UINT64_MAX: all */
};

/* Is there a view of that name? The name ends with a space or the text. */
bool amb_counters_query_is(const char *query);
/* The objects that the query's view has rows of; 0: it has none. */
enum amb_counters_scope amb_counters_query_scope(const char *query);
/* NULL: there is no such view. */
const struct amb_counters_source *amb_counters_source_find(const char *query);
/* EINVAL, and a sentence. */
AMB_MUST_CHECK enum amb_status amb_counters_query_parse(const struct amb_counters_image *image,
                                                        const char *text,
                                                        struct amb_counters_query *out,
                                                        char why[AMB_COUNTERS_REFUSAL_MAX]);
