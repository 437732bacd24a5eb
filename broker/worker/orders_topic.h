/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about a topic: that it comes and goes, and its readers, here or at a borrower.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/topic/begin.h"
#include "broker/worker/orders.h"

#include <stdint.h>

struct amb_topic;

/* About a topic as one worker knows it. */
struct amb_order_topic {
    struct amb_order order;
    struct amb_topic *topic;
};
extern const struct amb_order_kind amb_order_topic_add;
/* At home: EAGAIN while somebody has not read all of it, or while it has history. */
extern const struct amb_order_kind amb_order_topic_ask;
/* Nobody writes it any more, and its cursors go with it. It is out of the shard's tables then, and
 * empty. EAGAIN: its name is being sent, or somebody has not read all of it. */
extern const struct amb_order_kind amb_order_topic_remove;

/* At home: it is emptied. */
struct amb_order_topic_purge {
    struct amb_order order;
    uint32_t topic;
    uint64_t messages; /* the answer: so many have gone */
};
extern const struct amb_order_kind amb_order_topic_purge;

struct amb_order_topic_matched {
    struct amb_order order;
    uint32_t topic, matched;
};
extern const struct amb_order_kind amb_order_topic_matched;

/* A quiet topic has all of its readers: messages that have come to it go on. */
struct amb_order_topic_awake {
    struct amb_order order;
    uint32_t topic;
    uint32_t pairs; /* made for it before this order; the control thread's */
};
extern const struct amb_order_kind amb_order_topic_awake;

/* At the topic's home: changes what it lends to another worker. A new reader's cursor is attached
 * there by the same order, which home sends on with the number that it begins at. So it is attached
 * before anything that it must see is lent. */
struct amb_order_lend {
    struct amb_order order;
    uint32_t topic;
    unsigned borrower;
    int32_t subs, holding, spilling; /* changes */
    struct amb_topic *shadow;
    /* The cursor to attach there, of a change upwards: a subscription of `session`. */
    uint64_t sub;
    uint32_t handle;
    struct amb_begin begin;
    struct amb_begun begun;      /* home's, for the borrower */
    struct amb_topic *attach_to; /* ... the shadow that it is attached to */
};
extern const struct amb_order_kind amb_order_lend;

/* At home: a reader's slow policy has changed. */
struct amb_order_recount {
    struct amb_order order;
    uint64_t sub;
    uint32_t topic;
    unsigned borrower;
    int32_t holding, spilling; /* changes */
};
extern const struct amb_order_kind amb_order_recount;

/* At home, of a reader there. */
struct amb_order_cursor_attach {
    struct amb_order order;
    uint64_t sub; /* its id */
    uint32_t handle, topic;
    struct amb_begin begin;
};
extern const struct amb_order_kind amb_order_cursor_attach;
