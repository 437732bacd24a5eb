/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acknowledgements of one subscription: see subscribe/ack.h.
 * Threads: under the connection's lock. A run that exists may grow under its own lock alone, so its
 * fields are read and written under both. Memory: none.
 */
#pragma once

#include "client/conn/spinlock.h"
#include "wire/base/list.h"

#include <amb/amb.h>
#include <stdint.h>

/* Of a subscription. */
struct amb_acks {
    struct amb_list_node node; /* in conn->acks.waiting: its run waits */
    enum amb_ack mode;         /* NONE: it has no acks */
    struct amb_spinlock lock;  /* a leaf: */
    uint64_t number;           /* of the run's delivery */
    uint32_t first, count;     /* 0: no run */
    uint32_t life;             /* of the session that the run is of */
    uint64_t sent, confirmed;  /* frames; the broker has counted */
};

/* Another session: nothing was said in it. */
static inline void amb_acks_begin(struct amb_acks *acks)
{
    amb_list_remove(&acks->node);
    amb_spinlock_lock(&acks->lock);
    acks->count = 0;
    amb_spinlock_unlock(&acks->lock);
    acks->sent = acks->confirmed = 0;
}

static inline void amb_acks_init(struct amb_acks *acks, enum amb_ack mode)
{
    amb_list_init(&acks->node);
    acks->mode = mode == AMB_ACK_DEFAULT ? AMB_ACK_NONE : mode;
}
