/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a publisher that carries some; request/replies.c works on it.
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdint.h>

/* Outcomes that a request may still learn of when it is entered late. */
#define AMB_UNMATCHED_MAX 16u

/* Batches of requests of one publisher that reached nobody. */
struct amb_unmatched {
    uint64_t first, last;
    enum amb_status status;
};

struct amb_pub;

/* Messages first to last of a publisher of requests are settled so; matched: how many subscriptions
 * they reached. Connection's lock held. */
typedef void (*amb_asking_fn)(struct amb_pub *pub, uint64_t first, uint64_t last,
                              enum amb_status status, uint32_t matched);

/* Of a publisher that carries requests; else all zero. */
struct amb_asking {
    amb_asking_fn on_settled;   /* replies.c sets it, and looks for their requests; NULL: none */
    struct amb_list_node asked; /* struct amb_asked.of_pub */
    struct amb_unmatched recent[AMB_UNMATCHED_MAX];
    uint32_t next;
};
