/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a trace that is over (shard/trace.h) as rows of an answer: by batch, in the order
 * of time.
 *
 * Threads: names are given on the control thread, JSON is made on the observer; nobody writes the
 * trace any more. Memory: the caller's; two tables of names, which `fini` frees.
 */
#pragma once

#include "broker/base/tenant.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TRACE_ROWS_MAX 20000u /* of one answer; it says how many more there are */
#define AMB_TRACE_NAMES_MAX 512u  /* of clients, and of topics; others have their numbers alone */

struct amb_control;
struct amb_trace;

struct amb_trace_name {
    uint64_t id;      /* 0: free */
    const char *link; /* a client's: static */
    char text[AMB_TOPIC_MAX + 1];
};

struct amb_trace_names {
    struct amb_trace_name *clients, *topics;
};

/* Looks up whom and what the records name. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_trace_names_find(struct amb_trace_names *names,
                                                    const struct amb_control *control,
                                                    const struct amb_trace *trace);
/* Harmless on a zeroed one. */
void amb_trace_names_fini(struct amb_trace_names *names);
/*
 * {"trace": [ROW, ...], "batches": that came, "of": that were asked for, "not_shown": rows,
 * "not_noted": records that had no room, "units": of columns}, for free(). NULL: no memory.
 */
char *amb_trace_rows(const struct amb_trace *trace, const struct amb_trace_names *names);
