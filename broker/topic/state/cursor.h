/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a cursor, each of which belongs to the file that it names.
 *
 * Threads: the topic's worker. Memory: embedded in the cursor.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_filter;
struct amb_prelude;
struct amb_sifter;

/* cursor.c, hold.c: its policy, and whether it holds publishers back. */
struct amb_cursor_hold {
    struct amb_list_node
        blocked;        /* of shard->forward.blocked: holding, behind, with a time limit */
    int64_t limit_ns;   /* how long it may hold; INT64_MAX: for ever */
    int64_t since_ns;   /* it is behind */
    enum amb_slow slow; /* its policy, */
    bool holds;         /* block, which holds publishers back, */
    bool spills;        /* or spill: amb_cursor_spill */
    bool is_dropping;   /* its time limit has passed: does not hold until it has caught up */
    bool is_replaying;  /* reads history: does not hold until it is near the end */
};

/* pick.c, slow.c: messages that it does not get. */
struct amb_cursor_loss {
    uint64_t expected_seq; /* of the next message, or those up to it are lost */
    uint64_t expired;      /* of those that are lost: whose time was over */
    uint32_t looked;       /* the last look of its subscription that has come to it: slow.h */
    bool is_late;          /* messages missing before its first one were gone when it came */
    bool is_unknown;       /* ... cannot be known */
};

/* Where a cursor with a filter has looked last. */
struct amb_cursor_blob {
    uint64_t of_seq;    /* first_seq of the entry */
    uint32_t index, at; /* of a message, and where its blob is */
    uint64_t run_seq;   /* from here on */
    uint32_t run_end;   /* ... up to this index messages pass */
};

/* pick.c, sift.c */
struct amb_cursor_pick {
    const struct amb_filter *filter; /* its filter; NULL: everything */
    struct amb_sifter *sifter;       /* the sifter whose steps that takes: its session's, its
                                      * queue's */
    struct amb_cursor_blob blob;
};

/* recall.c */
struct amb_cursor_recall {
    struct amb_prelude *prelude; /* is read before the log; NULL: no more of it */
    uint64_t upto;               /* all before this number, of which nothing is lost */
};
