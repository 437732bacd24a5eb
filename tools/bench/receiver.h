/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One subscriber's side: takes messages, checks each, counts into memory that others read.
 * Threads: one writes; any process reads the atomics of struct amb_team_sub.
 */
#pragma once

#include "tools/bench/own.h"
#include "tools/bench/team.h"

struct amb_receiver {
    const struct amb_bench *bench;
    struct amb_bench_gpu *gpu; /* NULL: host memory */
    uint32_t wrong;            /* words, so far */
    struct amb_bench_own own;  /* if bench->own asks for it */
    struct amb_sub *sub;
    struct amb_team_sub *counts;
    const struct amb_team *team; /* open loop: says when messages were due; else NULL */
    struct amb_hdr *late_ns;
    uint64_t next[AMB_BENCH_PUBS_MAX]; /* own copies of what counts->next tells the others */
    uint64_t received;
    uint64_t log_first; /* GPU: the first message's number in its topic */
};

/* amb_receiver_fini is due in any case. */
enum amb_status amb_receiver_init(struct amb_receiver *receiver, const struct amb_bench *bench,
                                  struct amb_conn *conn, const char *topic,
                                  struct amb_team_sub *counts);
/* Are these the bytes that were sent? *word then says which message it is. On a GPU every word is
 * looked at by a kernel, with --touch, and waited for. */
bool amb_receiver_read(struct amb_receiver *receiver, const struct amb_msg *msg, uint64_t *word);
void amb_receiver_release(struct amb_receiver *receiver, struct amb_msg *msg);
/* Takes and counts what is there; ETIMEDOUT: nothing came. */
enum amb_status amb_receiver_run(struct amb_receiver *receiver, int64_t timeout_ns);
/* A subscriber's process of a team, from connect to close. */
void amb_receiver_main(const struct amb_team *team, unsigned index);
void amb_receiver_fini(struct amb_receiver *receiver, int64_t timeout_ns);
