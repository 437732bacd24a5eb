/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a topic that broker/ingest owns.
 *
 * Threads: the topic's worker; `heard` crosses to the control thread. Memory: embedded in the
 * topic.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* route.c, at home: the subscriptions that match the topic. */
struct amb_topic_audience {
    uint32_t matched;             /* everywhere */
    bool is_quiet;                /* not all of those have a cursor: directory.h, */
    struct amb_list_node waiting; /* so these wait: struct amb_entry.pending */
    struct amb_mail heard;        /* to the control thread, with the first of them */
};

static inline void amb_topic_audience_init(struct amb_topic_audience *audience)
{
    amb_list_init(&audience->waiting);
}
