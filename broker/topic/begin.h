/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a log a subscription begins to read.
 * Threads: the worker that is the topic's home. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_prelude;
struct amb_topic;

/* A subscription's wishes of one topic. */
struct amb_begin {
    enum amb_start start; /* not POSITION: that is a SEQ of each topic */
    uint64_t at;          /* LAST_N: messages; SEQ: of the first; TIME: ns since 1970 */
    bool is_unknown;      /* the losses before that nobody can know */
    bool is_own;          /* SEQ: a number within this priority's log, not the topic's */
};

/* And where that is. */
struct amb_begun {
    uint64_t position; /* of the first entry that it reads */
    uint64_t seq;      /* it reads messages from this one on; missing ones after it are lost */
    bool is_late;      /* something is: it was gone when the subscription came */
    bool is_unknown;
    struct amb_prelude *prelude; /* it reads this first; NULL: nothing. Its owner: the cursor, or,
                                  * if none takes it, to be freed */
};

/* At home. NULL: at the end. History begins where `retain` says; SEQ also finds older messages that
 * have not gone yet. */
void amb_begin_find(const struct amb_topic *topic, const struct amb_begin *begin,
                    struct amb_begun *out);
