/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrivals of one subscription, and the topics that they are of: see subscribe/arrivals.h.
 *
 * Threads: arrivals under the subscription's lock, topics under the connection's. Memory: the table
 * is one allocation; names belong to the connection.
 */
#pragma once

#include "wire/base/list.h"

#include <amb/amb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct amb_topic_name;

struct amb_sub_arrivals {
    struct amb_list_node list;      /* deliveries, oldest first; by priority if has_ranks */
    bool has_ranks;                 /* higher ones overtake what was not taken yet */
    struct amb_list_node *lower[2]; /* then: the first below HIGH, and below NORMAL */
    uint64_t delivered, lost, last_seq, carry_lost;
    enum amb_loss carry_loss;
    _Atomic bool has_ready; /* amb_next would find something; written under lock */
};

static inline void amb_sub_arrivals_init(struct amb_sub_arrivals *arrivals)
{
    amb_list_init(&arrivals->list);
}

/* Topic ids of one subscription: open hashing, at most half full. */
struct amb_topic_table {
    struct {
        uint32_t id;
        struct amb_topic_name *name;
    } * cells;
    uint32_t mask, count;
};

struct amb_sub_topics {
    struct amb_topic_table table;
    uint64_t names; /* that have come */
};

static inline void amb_sub_topics_fini(struct amb_sub_topics *topics)
{
    free(topics->table.cells);
}
