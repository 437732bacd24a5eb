/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A taker: a subscription that is a member of a queue (queue.h), on its own worker. It sends the
 * takes that it is given as deliveries, and holds them until they are acknowledged. It gives the
 * others back home: at once when it leaves, or when ack_wait has passed.
 *
 *   arrived ─► waiting (room, credit) ─► sent, pending by number ─► settled, or home again
 *
 * A member that leaves may have more late ACKs than go home in one turn (former.h). It is there
 * until the last of them has gone, and the last take behind them.
 *
 * Without acks a take is settled when it is sent, and its credit returns with the release.
 *
 * Threads: the subscription's worker. Memory: one allocation, and one a topic for its name.
 */
#pragma once

#include "broker/delivery/acks/former.h"
#include "broker/delivery/acks/take.h"
#include "broker/delivery/reader/subscription.h"
#include "wire/base/idmap.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_shard;

struct amb_taker {
    struct amb_list_node node;    /* of the shard */
    struct amb_list_node busy;    /* of the shard: has something to send */
    struct amb_subscription *sub; /* NULL: it went before the last take */
    struct amb_shard *shard;
    struct amb_seat *seat; /* NULL: it is gone */
    enum amb_ack ack;
    int64_t ack_wait_ns;
    struct amb_list_node waiting; /* struct amb_take.node, in the order given */
    struct amb_list_node pending; /* ... sent; the next to expire first */
    int64_t prolonged_ns;         /* cumulative: none of those that are sent is due before */
    struct amb_idmap known;       /* the pending ones, by delivery number */
    bool is_leaving;              /* pending ones wait for its late ACKs, charged to nobody */
    struct amb_formers formers;
    struct amb_idmap told;        /* topics whose names the client knows */
    uint64_t frames;              /* ACK and TERM that came */
    struct amb_list_node waiters; /* struct amb_taker_waiter.node */
    uint32_t waiter_count;
    /* counters, of messages */
    uint64_t redelivered, acked, naked, termed, expired, late;
};

/* Makes the subscription a member; the seat, whose `to` and queue are set by the caller, is this
 * one's until its leave mail. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_taker_create(struct amb_subscription *sub, enum amb_ack ack,
                                                int64_t ack_wait_ns, struct amb_seat *seat);
/* Mail: a take for a member of this worker. */
void amb_taker_arrived(struct amb_mail *mail, void *owner);
/* It is leaving, and the last of its late ACKs has gone home: so does all that it has, as far as
 * the budget goes. False: there is more. True: it is freed if its subscription has gone. */
bool amb_taker_leave_on(struct amb_taker *taker, unsigned *budget);
/* It gets no more. It may still acknowledge the messages that it has. Harmless twice. */
void amb_taker_stop(struct amb_taker *taker);
/* Once a turn: sends takes that wait, gives back those that have expired, and runs the formers. */
unsigned amb_takers_run(struct amb_shard *shard);
/* The time at which that has next to be done: a take expires or is tried again; INT64_MAX. */
int64_t amb_takers_due(struct amb_shard *shard);
/* An operator has them come again: all that it has goes home, as if it had left. */
void amb_taker_recall(struct amb_taker *taker);
/* Messages that it has and were not acknowledged. */
uint64_t amb_taker_pending(const struct amb_taker *taker);
