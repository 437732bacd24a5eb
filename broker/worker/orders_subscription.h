/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about subscriptions and the queues that some of them are members of: opened, waited for,
 * closed.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/taker_ack.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/worker/orders.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_filter;
struct amb_party;
struct amb_seat;

struct amb_order_subscription_open {
    struct amb_order order;
    uint32_t handle;
    uint64_t id;
    struct amb_subscription_options options;
    uint64_t queue;                         /* id of one that it is a member of; 0: none */
    unsigned queue_home;                    /* its worker */
    struct amb_queue_options queue_options; /* as this member wants it */
    struct amb_seat *seat;                  /* the workers' */
    struct amb_filter *filter;              /* becomes theirs, or is freed with the order; */
    char *label;                            /* ... so does this, of struct amb_subscription */
};
extern const struct amb_order_kind amb_order_subscription_open;

/* A member's: answered when acks have come; it may be stopped before. */
struct amb_order_subscription_sync {
    struct amb_order order;
    uint32_t handle;
    uint64_t acks;                  /* so many */
    struct amb_taker_waiter waiter; /* the workers' */
    bool stop;                      /* it gets no more */
};
extern const struct amb_order_kind amb_order_subscription_sync;

struct amb_order_subscription_close {
    struct amb_order order;
    uint32_t handle;
    uint64_t acks;                  /* a member's: it ends when so many have come */
    struct amb_taker_waiter waiter; /* the workers' */
};
extern const struct amb_order_kind amb_order_subscription_close;

/* A member's messages that were not acknowledged come again. */
struct amb_order_member_recall {
    struct amb_order order;
    uint32_t handle;
    uint64_t id;       /* of the subscription */
    uint64_t messages; /* the answer: so many */
};
extern const struct amb_order_kind amb_order_member_recall;

struct amb_order_queue_open {
    struct amb_order order;
    uint64_t id;
    struct amb_queue_options options;
    struct amb_party *party; /* that pays for it; a reference, or NULL */
};
extern const struct amb_order_kind amb_order_queue_open;

/* A queue ends: its takes are dropped. */
struct amb_order_queue_close {
    struct amb_order order;
    uint64_t id;
};
extern const struct amb_order_kind amb_order_queue_close;
