/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of requests share: a request that waits for workers, and the requests
 * themselves. There is one requests_*.c for each kind of thing that clients ask for. Each of them
 * answers, at once or when the workers have; `id` is the answer's.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/requests/requests.h"
#include "broker/worker/orders.h"

/* A request whose answer waits for orders. */
struct amb_request {
    struct amb_client *client;
    uint64_t id;
    uint32_t handle;
    bool is_work;        /* answered as soon as a worker can */
    uint64_t heap;       /* charged for it, and for its order */
    unsigned unanswered; /* orders without an answer */
    enum amb_status status;
    uint32_t topic;          /* id, of a publisher, */
    uint32_t group;          /* ... and its trust group, as the configuration counts them */
    uint32_t subscribers;    /* of it, told to the topic before the publisher */
    uint64_t sub;            /* id of a subscription */
    bool is_narrowed;        /* that does not read all topics of its pattern */
    bool gpu_reject;         /* a publisher's GPU memory stays on its GPU or is not published */
    const char *gpu_why;     /* it may not lease such memory because; static; NULL: it may */
    int64_t time_ns;         /* when it came */
    struct amb_order *close; /* of the publisher that this opens: posted when it is; or NULL */
};

/* An order to the worker of the client's session. Its context is a new request, which waits for
 * that order and holds the client until amb_request_free. NULL: no memory, or the client's heap is
 * used up. */
void *amb_request_order(struct amb_client *client, uint64_t id, uint32_t handle, bool is_work,
                        const struct amb_order_kind *kind, amb_order_done_fn done);
void amb_request_free(struct amb_request *request);
/* Has the table a cell for handle, which is below AMB_HANDLES_MAX? False without memory, or with
 * the client's heap used up. */
bool amb_request_table_ready(struct amb_client *client, struct amb_client_table *table,
                             uint32_t handle);
/* Answers that its heap is used up: ELIMIT, and which key says so. */
void amb_request_no_heap(struct amb_client *client, uint64_t id);
/* The same where that is so, else that there is no memory. */
void amb_request_no_memory(struct amb_client *client, uint64_t id);
