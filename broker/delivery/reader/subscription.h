/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription of a session: it begins, has cursors in the topics that match, and ends. Its
 * deliveries are the subject of deliveries.h.
 *
 * Threads: the shard's worker. Memory: an allocation each, with the table of deliveries.
 */
#pragma once

#include "broker/delivery/reader/losses.h"
#include "broker/delivery/reader/pace.h"
#include "broker/delivery/reader/sweep.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_CREDIT_MSGS_DEFAULT (UINT64_C(64) << 10)
#define AMB_CREDIT_MSGS_MAX (UINT64_C(1) << 20)
#define AMB_CREDIT_BYTES_DEFAULT (UINT64_C(64) << 20)
#define AMB_CREDIT_BYTES_MAX (UINT64_C(1) << 40) /* of 2^20 subscriptions no sum wraps */

struct amb_begun;
struct amb_tally;
struct amb_entry;
struct amb_filter;
struct amb_session;
struct amb_shard;
struct amb_topic;

struct amb_delivery {
    struct amb_entry *entry; /* in place, or kept for a lazy reader: one reference; else NULL */
    struct amb_tally *tally; /* counts it as delivered when it comes back; or NULL */
    uint64_t bytes;          /* once it is back: a number, all before which are back, too; or 0 */
    uint32_t msgs;
    bool is_released;
    uint8_t lazy;   /* enum amb_lazy: entry is kept for a fetch, or stale: lazy.h; or MAPPED */
    uint16_t first; /* ... and where in it the messages given begin */
};

/* Of a lazy delivery of which the client has something in place: from then on as one that came so.
 */
#define AMB_DELIVERY_MAPPED 255u

struct amb_subscription_options {
    uint64_t credit_msgs, credit_bytes; /* 0: the default */
    enum amb_slow slow;                 /* DEFAULT: the topic's */
    int64_t slow_block_ns;              /* BLOCK: how long; INT64_MAX: for ever */
    bool copy;                          /* never in place */
    enum amb_mem mem;                   /* GPU memory in place: CUDA or AS_SENT */
    bool by_link;                       /* ... or out of GPU memory by a link that takes it */
    enum amb_lazy lazy;                 /* payloads come when they are asked for */
    struct amb_pace_options pace;       /* not of members of queues */
};

struct amb_subscription;
struct amb_taker;

/* As its records have it: losses.h. */
struct amb_subscription_losses {
    uint64_t messages[AMB_LOSS_REASONS];
    uint16_t records[AMB_LOSS_REASONS]; /* 0: none */
    bool is_unlisted;                   /* there was no room for one */
};

/* Added to the outstanding messages while cursors of one that goes are left. No credit is as large,
 * so nothing is delivered to it, at no cost for others. */
#define AMB_SUBSCRIPTION_NO_CREDIT (UINT64_C(1) << 62)

/* A look at all its cursors, which takes several ticks where they are many. */
struct amb_slow_look {
    uint32_t number;
    bool is_begun;
    bool is_waited_for, is_spilling; /* so far: one of them is */
};

/* The work of a member of a queue where other subscriptions do nothing. */
struct amb_subscription_hooks {
    void (*detached)(struct amb_subscription *sub); /* it gets no more; harmless twice */
    void (*released)(struct amb_subscription *sub, uint64_t number,
                     const struct amb_delivery *delivery);
    void (*destroyed)(struct amb_subscription *sub); /* it is freed next */
};

struct amb_subscription {
    struct amb_session *session;
    uint32_t handle;
    uint64_t id; /* the control thread's name for it */
    struct amb_subscription_options options;
    struct amb_list_node node;
    struct amb_sweep sweep;                     /* of the cursors, when it goes, */
    bool is_sweeping;                           /* ... and has begun: it gets no more, */
    bool is_gone;                               /* ... and is freed behind the last of them */
    struct amb_list_node cursors;               /* struct amb_cursor.of_sub */
    const struct amb_subscription_hooks *hooks; /* NULL: it is not a member of a queue */
    struct amb_taker *taker;                    /* ... else what it is there */
    struct amb_filter *filter;                  /* its filter; NULL: all */
    uint64_t filter_heap;                       /* charged for it */
    struct amb_pace *pace;                      /* how fast; NULL: as fast as it can */
    bool has_ended;                             /* unsubscribed, but not everything is back */
    void (*gone)(void *arg);                    /* of an ended one, may be NULL */
    void *gone_arg;
    struct amb_delivery *deliveries;
    uint64_t mask;                /* cells - 1 */
    uint64_t delivered, released; /* numbers given out; all up to `released` are back */
    uint64_t told;                /* the highest cumulative release that came */
    uint64_t msgs_out, bytes_out; /* outstanding, */
    uint64_t deliveries_out;      /* in so many deliveries */
    bool is_slow, is_spilling;    /* as told: slow.h */
    struct amb_slow_look look;
    uint64_t lost_told;     /* losses told so far, those to come with a delivery among them */
    int64_t lost_told_ns;   /* the next ones are not told before */
    uint64_t kept_from;     /* lazy: no older delivery has a payload that may go stale */
    uint64_t kept_bytes;    /* ... the bytes that those that have one keep */
    uint32_t counters_slot; /* of its numbers: broker/observe; 0: none */
    char *label;            /* its pattern, and behind the NUL its client's name; NULL: none */
    uint64_t label_heap;    /* charged for it */
    struct amb_subscription_losses losses;
    /* counters */
    uint64_t msgs, bytes, lost, spilled;
    uint64_t gpu_msgs, gpu_bytes;        /* of the first two, those whose payloads lay on a GPU, */
    uint64_t held_bytes, held_gpu_bytes; /* ... and what is held in place, by memory */
    uint64_t looked;                     /* deliveries looked at for ranges that came back */
    uint64_t lost_by[AMB_LOSS_PURGED + 1]; /* the last by reason */
};

AMB_MUST_CHECK enum amb_status
amb_subscription_create(struct amb_session *session, uint32_t handle, uint64_t id,
                        const struct amb_subscription_options *options,
                        struct amb_subscription **out);
/* Messages that are outstanding. */
static inline uint64_t amb_subscription_out(const struct amb_subscription *subscription)
{
    return subscription->msgs_out & (AMB_SUBSCRIPTION_NO_CREDIT - 1);
}
/* Detaches its cursors. Deliveries held in place go to the session's quarantine if keep_held, else
 * they are given back. */
void amb_subscription_destroy(struct amb_subscription **subscription, bool keep_held);

/*
 * Unsubscribed: no more deliveries. It goes, and its handle is free, when the cumulative release
 * has come to the last delivery: at once, in amb_subscription_release, or with its session. `gone`
 * (may be NULL) is called then; before that, deliveries of it may be under way. Ranges alone are
 * not enough: both sides count on from the last delivery, and have to agree which one that was.
 */
void amb_subscription_end(struct amb_subscription *subscription, void (*gone)(void *arg),
                          void *arg);
/* Gives up its cursors, so that it holds nobody back. */
void amb_subscription_detach(struct amb_subscription *subscription);

/* Starts reading a topic, as amb_cursor_attach. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_subscription_attach(struct amb_subscription *subscription,
                                                       struct amb_topic *topic,
                                                       const struct amb_begun *begun);
/* It goes if it has ended, and the last release has come. */
void amb_subscription_end_if_empty(struct amb_subscription *subscription);
