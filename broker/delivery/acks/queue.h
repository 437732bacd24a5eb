/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue: cursors that several may share and that outlive them. Acknowledgements, groups and
 * durable names are made of it. An acknowledged subscription is the only member of a queue of its
 * own. A group's members share one. A durable name's stays when its session goes.
 *
 *   log ──cursor──► queue ──take──► member (taker.h), of this worker or another
 *                     ▲                │ settled, or what is left of it
 *                  ready, later ◄──────┘
 *                     └── too often, or TERM ──► $DLQ.<topic>
 *
 * Each message goes to exactly one member. That is by its key where it has one and there are
 * several members, else the member with most credit left, or the nearest (queue_choose.h). A batch
 * is cut into as many takes as there are members that compete for it. Messages that come back
 * unsettled go out again before anything new; those that wait to do so count against everybody's
 * credit together.
 *
 * Threads: its worker; takes and seats cross by mail. Memory: one allocation; it goes when it is
 * closed and the last take and seat are back.
 */
#pragma once

#include "broker/base/heap_account.h"
#include "broker/delivery/acks/take.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/shard/sifter.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_BACKOFF_MAX 16u
#define AMB_QUEUE_TAKES_MAX (UINT64_C(1) << 16) /* of one queue; then its cursors wait */
#define AMB_ACK_WAIT_DEFAULT_NS (INT64_C(30) * 1000000000)
#define AMB_QUEUES_RETRY_TURN 256u  /* queues that lacked memory, and try again in one turn */
#define AMB_QUEUE_HANDLE UINT32_MAX /* in orders: not a subscription's */

struct amb_begun;
struct amb_cursor;
struct amb_filter;
struct amb_purse;

struct amb_queue_options {
    enum amb_ack ack; /* NONE, EXPLICIT, CUMULATIVE */
    int64_t ack_wait_ns;
    uint32_t max_deliver; /* 0: no limit */
    uint32_t backoff_count;
    int64_t backoff_ns[AMB_BACKOFF_MAX]; /* before the first redelivery, ...; the last repeats */
    enum amb_slow slow;
    int64_t slow_block_ns;
};

struct amb_queue {
    struct amb_idmap_node known; /* of the shard, by id */
    struct amb_list_node dirty;  /* of the shard */
    struct amb_shard *shard;
    uint64_t id;
    struct amb_queue_options options;
    uint64_t newest;              /* id of the newest subscription that has joined */
    struct amb_filter *filter;    /* its filter; NULL: all */
    struct amb_list_node cursors; /* struct amb_cursor.of_sub */
    struct amb_sweep sweep;       /* of the cursors, when it is closed */
    struct amb_sifter sifter;     /* the steps that its filter may cost, */
    struct amb_purse *purse;      /* and the user who pays for them; NULL: no quota */
    struct amb_list_node hungry;  /* struct amb_cursor.stalled: wait for credit */
    struct amb_list_node seats;
    uint32_t seat_count;
    uint64_t credit_msgs, credit_bytes;         /* of all seats */
    struct amb_list_node ready[AMB_PRIORITIES]; /* struct amb_take.node: to be delivered again now;
                                      by amb_priority_rank */
    bool has_priorities;                        /* it reads others than NORMAL */
    struct amb_take **later;                    /* a heap by due_ns */
    size_t later_count, later_size;
    struct amb_list_node lacking;   /* of the shard: it has found no memory, */
    int64_t retry_ns;               /* ... and tries again then */
    uint64_t kept_msgs, kept_bytes; /* in ready and later */
    struct amb_heap_account heap;   /* of these takes */
    uint64_t takes;                 /* everywhere */
    struct amb_idmap again;         /* those that come again: queue_again.h */
    bool is_closed;
    uint32_t counters_slot; /* of its numbers: broker/observe; 0: none */
    /* counters, of messages */
    uint64_t given, given_remote, redelivered, settled_late, dead, lost;
};

/* As far as credit goes. Part of the walk of a topic (forward.c). False: it waits for credit. */
bool amb_queue_feed(struct amb_cursor *cursor);
/* Once a turn: what is due again, and topics whose queues have credit again are marked. Some of the
 * queues that lacked memory try again. */
void amb_queues_run(struct amb_shard *shard);
/* The time at which that is next to be done; INT64_MAX. */
int64_t amb_queues_due(struct amb_shard *shard);
