/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of a counters image as JSON, for broker-ctl: of a broker that runs, and of a file. The
 * columns are those of the image's metric table.
 *
 *   status    an object: the broker, and the sums of its workers
 *   workers   {"workers": [ROW, ...]}
 *   topics, subs, queues, clients   the same of objects; "not_shown": how many have no slot
 *   closed    clients that have gone, the last one first
 *   errors    distinct log lines from warn up, the last one first; their names are the levels
 *   loss      what subscriptions have lost, a row for each reason, the last one first
 *   metrics   each metric of the broker and the workers, with its value
 *
 * Each has "units", too: units.h. Rows of the table with the same column are added up: two threads
 * may use memory for one client.
 *
 * A query is a view's name, and words behind it:
 *
 *   PATTERN, match=PATTERN   objects whose name or pattern matches
 *   sort=COLUMN              numbers from large to small, texts from a on
 *   top=N                    so many rows
 *
 * An answer comes in pages, which together are one JSON text, so it has no size limit. Rows that
 * come or go between two pages are there or not; no row is there twice.
 *
 * A view of one tenant has that one's objects alone, and none of the broker or the workers.
 *
 * Threads: any, each with views of its own. Memory: some bytes for each slot, until it is closed.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/counters/image.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_COUNTERS_PAGE_ROWS 1000u
#define AMB_COUNTERS_QUERY_MAX 640u
/* Of a refusal: it lists the view's columns. */
#define AMB_COUNTERS_REFUSAL_MAX 768u

struct amb_counters_view;

/* The part of an image that one tenant may see. */
struct amb_counters_share {
    uint64_t tenant;   /* its number */
    uint64_t unlisted; /* how many of its objects have no slot */
};

/* EINVAL: the query is wrong, and `why` has a sentence. ENOMEM. The image must stay. share: copied;
 * NULL: all. EFORBIDDEN: the query is of more than a tenant's objects. now_ns: of the broker's
 * clock; 0: the image's last sign of life. */
AMB_MUST_CHECK enum amb_status
amb_counters_view_open(const struct amb_counters_image *image, const char *query,
                       const struct amb_counters_share *share, uint64_t now_ns,
                       struct amb_counters_view **out, char why[AMB_COUNTERS_REFUSAL_MAX]);
/* The next piece of the answer, at most `rows` rows, for free(); NULL: no memory. */
char *amb_counters_view_page(struct amb_counters_view *view, uint32_t rows, bool *is_last);
/* All pages as one text, for free(); NULL: no memory. */
char *amb_counters_view_all(struct amb_counters_view *view);
void amb_counters_view_close(struct amb_counters_view **view);
