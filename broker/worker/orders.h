/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of the control thread to a worker, each with an answer. An order is one allocation of the
 * control thread: filled in, posted, run by the worker, posted back, read and freed.
 *
 * Threads: amb_order_post on the control thread; run functions on the worker; `done` on the control
 * thread again, with the inbox's owner.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/taker_ack.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/maker.h"
#include "broker/shard/segment_lease.h"
#include "broker/topic/begin.h"
#include "broker/topic/topic.h"
#include "wire/base/status.h"
#include "wire/codec/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_identity;
struct amb_gpu_pool;
struct amb_order;
struct amb_party;
struct amb_shard;
struct amb_topic;
struct json_t;

typedef void (*amb_order_done_fn)(void *control, struct amb_order *order);

/* What an order does: a constant of the file that carries it out. */
struct amb_order_kind {
    void (*run)(struct amb_shard *shard, struct amb_order *order); /* NULL: it is just answered */
    void (*fini)(struct amb_order *order); /* frees what it has; NULL: nothing */
    size_t size;                           /* AMB_ORDER_SIZE of its struct */
    bool answers_itself;                   /* run leads to amb_order_answer, now or later */
};

/* Of the struct of a kind; does not compile unless that begins with `struct amb_order order`. */
#define AMB_ORDER_SIZE(type) (sizeof(type) * sizeof(char[offsetof(type, order) == 0 ? 1 : -1]))

/* A session by value. */
struct amb_session_id {
    unsigned shard;
    uint32_t index, generation;
};

struct amb_order {
    struct amb_mail mail;
    struct amb_shard *shard;
    const struct amb_order_kind *kind;
    amb_order_done_fn done;
    void *context;          /* the control thread's */
    enum amb_status status; /* of the answer */
    struct amb_session_id session;
    union {
        struct {
            const struct amb_config_limits *limits;
        } limits;
        struct {
            uint64_t left, held; /* out: messages not sent yet, not given back yet */
        } drain;
        struct {
            uint32_t topic;
            char *text; /* freed with the order */
        } announce;
        struct {
            struct json_t *json; /* out: an object */
            uint64_t at;         /* where the walk is, */
            bool is_done;        /* ... and whether that is its end */
            uint32_t rows_left;  /* that may be made */
            uint64_t left_out;   /* rows that were not */
        } snapshot;
    } u;
};

/* A zeroed struct of that kind, or NULL without memory. */
void *amb_order_new(const struct amb_order_kind *kind, amb_order_done_fn done, void *context);
/* Makes one that has come back another kind of the same struct, to be posted once more. */
void amb_order_renew(struct amb_order *order, const struct amb_order_kind *kind,
                     amb_order_done_fn done);
/* The order is the worker's until done is called, which frees it with amb_order_free. done NULL:
 * it is freed without an answer. */
void amb_order_post(struct amb_shard *shard, struct amb_order *order);
/* NULL: nothing. */
void amb_order_free(struct amb_order *order);

/* Other limits are in force from here on. */
extern const struct amb_order_kind amb_order_limits;
/* Its answer says that the orders that were posted to this worker before have been run. One that
 * goes on for some turns may not be done: what a session that closes still says is heard later. */
extern const struct amb_order_kind amb_order_nothing;
