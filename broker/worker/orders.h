/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of the control thread to a worker, each with an answer. An order is one allocation of the
 * control thread: filled in, posted, run by the worker, posted back, read and freed.
 *
 * Each kind has a struct that begins with the order, and a constant beside its run function. Both
 * are declared by the file that carries it out: orders_session.h, orders_topic.h and others.
 *
 * Threads: amb_order_post on the control thread; run functions on the worker; `done` on the control
 * thread again, with the inbox's owner.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_order;
struct amb_shard;

typedef void (*amb_order_done_fn)(void *control, struct amb_order *order);

/* The functions of an order: a constant of the file that carries it out. */
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
};

/* A zeroed struct of that kind, or NULL without memory. */
void *amb_order_new(const struct amb_order_kind *kind, amb_order_done_fn done, void *context);
/* Makes one that has come back another kind of the same struct, to be posted once more. */
void amb_order_renew(struct amb_order *order, const struct amb_order_kind *kind,
                     amb_order_done_fn done);
/* The order is the worker's until done is called. From then on it is the control thread's, which
 * frees it with amb_order_free, or posts it once more, now or later. done NULL: it is freed without
 * an answer. */
void amb_order_post(struct amb_shard *shard, struct amb_order *order);
/* NULL: nothing. */
void amb_order_free(struct amb_order *order);

/* Its answer says that the orders that were posted to this worker before have been run. One that
 * goes on for some turns may not be done: what a session that closes still says is heard later. */
extern const struct amb_order_kind amb_order_nothing;
