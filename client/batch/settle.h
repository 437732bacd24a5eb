/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settlement of one publisher: the sequence numbers of each batch on its way, the broker's word on
 * it, and ranges for on_settled. A million messages cost one cell a batch. Ranges that join and
 * agree are merged, and failures are bounded.
 *
 * Threads: owner only (the connection's lock). Memory: two rings that double.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SETTLE_RANGES_MAX 64u

/* A batch on its way. */
struct amb_settle_batch {
    uint64_t last_seq;
    uint64_t bytes;
    uint64_t log_seq;
    uint64_t dropped;
    uint32_t matched;
    int32_t status;
    bool has_frame; /* its SETTLED frame has come */
};

/* A run of messages settled alike, for on_settled. */
struct amb_settle_range {
    uint64_t first, last, log_seq;
    uint64_t delivered, dropped; /* where delivery is waited for: to all readers together */
    uint32_t matched;
    enum amb_status status;
};

struct amb_settle {
    struct amb_settle_batch *batches; /* numbers settled + 1 ..., number n at n & mask */
    uint64_t mask;
    uint64_t former;        /* batches up to this one were another publisher's */
    uint64_t settled, last; /* batch numbers: settled, newest */
    uint64_t settled_seq;   /* last sequence of batch `settled` */
    uint64_t settled_bytes;
    uint64_t failed;         /* messages */
    enum amb_status failure; /* the first one that no flush has returned yet */
    struct amb_settle_range ranges[AMB_SETTLE_RANGES_MAX];
    uint32_t range_first, range_count;
    bool keeps_ranges;    /* somebody wants them */
    bool awaits_delivery; /* SETTLED says what was delivered */
};

/* The first batch has number `former` + 1, and `bytes` were sent before it. */
void amb_settle_init(struct amb_settle *settle, bool keeps_ranges, uint64_t former, uint64_t bytes);
void amb_settle_fini(struct amb_settle *settle);
/* Room for one more batch, so that amb_settle_sent cannot fail. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_settle_reserve(struct amb_settle *settle);
/* Batch last + 1, of `bytes`, whose last message is last_seq, is sent. */
void amb_settle_sent(struct amb_settle *settle, uint64_t last_seq, uint64_t bytes);
/* The broker's word on one batch: status, log_seq, matched, dropped of `said`. EPROTO: no such
 * batch is on its way. */
AMB_MUST_CHECK enum amb_status amb_settle_frame(struct amb_settle *settle, uint64_t batch,
                                                const struct amb_settle_range *said);
/* The messages that a batch on its way carries. */
uint64_t amb_settle_first_seq(const struct amb_settle *settle, uint64_t batch);
uint64_t amb_settle_last_seq(const struct amb_settle *settle, uint64_t batch);
/* Batches up to `batch` are settled. wait_frames: only as far as their SETTLED frames have come.
 * EPROTO. */
AMB_MUST_CHECK enum amb_status amb_settle_upto(struct amb_settle *settle, uint64_t batch,
                                               bool wait_frames);
/* Everything up to last_seq, sent or not, is settled with `why`. */
void amb_settle_rest(struct amb_settle *settle, uint64_t last_seq, enum amb_status why);
/* The last message that was sent. */
uint64_t amb_settle_sent_seq(const struct amb_settle *settle);
/* The newest batch is not sent after all. */
void amb_settle_unsent(struct amb_settle *settle);
/* Nothing is on its way any more, and the next batch has number 1 again. */
void amb_settle_restart(struct amb_settle *settle);
/* The oldest range that is not reported yet; false: none. */
bool amb_settle_take(struct amb_settle *settle, struct amb_settle_range *out);
