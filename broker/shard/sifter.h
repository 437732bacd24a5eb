/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of sifting (sift.h): of a shard, and of each session and queue. A sifter is a session
 * or a queue as it waits for steps of content filters.
 *
 * Threads: the shard's worker. Memory: embedded; the cache is one allocation.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SIFT_STEPS 32768u               /* a turn: some hundred microseconds */
#define AMB_SIFT_SHARE (AMB_SIFT_STEPS / 4) /* of one session or queue */
#define AMB_SIFT_PAUSE_NS                                                                          \
    INT64_C(2000000) /* of a sifter that is past its quota, until asked again */

struct amb_purse;
struct amb_sift_cache;

/* Of a shard. */
struct amb_sift {
    struct amb_list_node waiting; /* struct amb_sifter.node, in turn */
    struct amb_list_node paused;  /* the same: their users are past filter_tests, */
    int64_t paused_due_ns;        /* ... and when they wait again */
    uint32_t steps;               /* left of this turn */
    uint64_t turn;
    /* NULL: not needed yet, or no memory; then each search reads the blob. */
    struct amb_sift_cache *cache;
    uint64_t waits; /* counter: cursors that had to wait for steps */
};

/* Of a session, and of a queue. */
struct amb_sifter {
    struct amb_list_node node;
    struct amb_list_node cursors; /* struct amb_cursor.stalled: without steps */
    uint32_t steps;               /* left of its share of turn `turn` */
    uint64_t turn;
    struct amb_purse *purse; /* of its user, whose tests they are; NULL: no quota */
};

void amb_sift_init(struct amb_sift *sift);
void amb_sift_fini(struct amb_sift *sift);
void amb_sifter_init(struct amb_sifter *sifter);
/* The sifter goes; its cursors are gone. */
void amb_sifter_fini(struct amb_sifter *sifter);
