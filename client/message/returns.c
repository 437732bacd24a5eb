/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/returns.h"

#include "client/conn/conn.h"
#include "client/conn/options.h"
#include "client/drive/lock.h"
#include "client/drive/tx.h"
#include "client/drive/wake.h"
#include "client/memory/view.h"
#include "client/message/fetch.h"
#include "client/message/landing.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

/* So many in a row show a dialogue. */
#define ANSWERS_MANY 4u

/* Room for messages by class. Batches are either single messages, or short, or full. */
static const uint32_t class_room[3] = {1, 32, AMB_BATCH_MSGS_MAX};

struct amb_arrival *amb_arrival_create(struct amb_conn *conn, uint32_t count)
{
    amb_assert(count <= AMB_BATCH_MSGS_MAX);
    uint32_t class = 0;
    while (class_room[class] < count) {
        class ++;
    }
    struct amb_arrival *arrival = conn->receive.unused[class];
    if (arrival != NULL) {
        memcpy(&conn->receive.unused[class], arrival, sizeof(void *));
    } else {
        size_t size = sizeof(*arrival) + class_room[class] * sizeof(struct amb_msg);
        arrival = aligned_alloc(alignof(struct amb_arrival), (size + 63) & ~(size_t)63);
        if (arrival == NULL) {
            return NULL;
        }
    }
    memset(arrival, 0, sizeof(*arrival));
    arrival->conn = conn;
    arrival->class = class;
    arrival->count = count;
    atomic_init(&arrival->refs, count);
    amb_list_init(&arrival->node);
    amb_list_push_back(&conn->receive.outstanding, &arrival->known);
    amb_conn_ref(conn);
    return arrival;
}

/* Memory of body and struct; the connection's reference is given up when the lock is. */
static void recycle(struct amb_arrival *arrival)
{
    struct amb_conn *conn = arrival->conn;
    if (arrival->view != NULL) {
        amb_view_return(arrival->view);
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    amb_buffers_put(&conn->receive.buffers, arrival->buffer, arrival->buffer_len);
    if (__builtin_expect(arrival->far != NULL, 0)) { /* Nobody has taken it. */
        amb_landing_far_put(arrival->sub->landing, arrival->far);
        arrival->far = NULL;
    }
    struct amb_side *sides = atomic_load_explicit(&arrival->sides, memory_order_relaxed);
    if (__builtin_expect(sides != NULL, 0)) {
        amb_fetch_recycle(conn, sides, arrival->count);
        free(sides);
    }
    amb_list_remove(&arrival->known);
    memcpy(arrival, &conn->receive.unused[arrival->class], sizeof(void *));
    conn->receive.unused[arrival->class] = arrival;
    conn->unrefs++;
}

void amb_arrival_discard(struct amb_arrival *arrival)
{
    recycle(arrival);
}

static void send_range(struct amb_conn *conn, uint32_t handle, uint64_t first, uint64_t count)
{
    struct amb_conn_tx *out = calloc(1, sizeof(*out));
    if (out == NULL) {
        return; /* The cumulative counter will say it later. */
    }
    out->kind = AMB_CONN_TX_RANGE;
    out->frame = (struct amb_frame){.type = AMB_FRAME_RELEASE_RANGE,
                                    .handle = handle,
                                    .number = first,
                                    .count = (uint32_t)count};
    if (amb_conn_tx_send(conn, out) != AMB_EAGAIN) {
        free(out);
    }
}

/* Each of the last messages was answered by a frame, which took the counter along. */
static bool is_talking(struct amb_conn *conn)
{
    conn->link_state.answers = !conn->link_state.has_spoken ? 0
                               : conn->link_state.answers < ANSWERS_MANY
                                   ? conn->link_state.answers + 1
                                   : ANSWERS_MANY;
    conn->link_state.has_spoken = false;
    return conn->link_state.answers == ANSWERS_MANY;
}

/*
 * The counter was set; shall it leave at once? On some links that is a system call for both sides.
 * There an eighth of the credit is saved up while batches of many messages follow each other, or
 * while each message is answered. So it is while single ones come soon after each other. A thread
 * must be there to send it soon.
 */
static bool is_release_due(struct amb_conn *conn, struct amb_sub *sub, uint32_t msgs,
                           uint64_t bytes)
{
    struct amb_rhythm *flow = &conn->link_state.flow;
    enum amb_io_mode io_mode =
        (enum amb_io_mode)atomic_load_explicit(&conn->io.mode, memory_order_relaxed);
    sub->saved_msgs += msgs;
    sub->saved_bytes += bytes;
    if (conn->link_state.has_costly_poll &&
        (is_talking(conn) || conn->link_state.is_bulk ||
         amb_rhythm_waits(flow, amb_clock_monotonic_ns())) &&
        (io_mode == AMB_IO_TICK || io_mode == AMB_IO_AWAKE) &&
        sub->saved_msgs <= sub->release.limit_msgs &&
        sub->saved_bytes <= sub->release.limit_bytes) {
        conn->link_state.may_flush = true;
        return false;
    }
    flow->since_ns = 0; /* All of it leaves. */
    sub->saved_msgs = sub->saved_bytes = 0;
    return true;
}

/* Reports to the broker that deliveries of this subscription are back. */
static void report(struct amb_conn *conn, struct amb_sub *sub, uint64_t number, uint32_t msgs,
                   uint64_t bytes)
{
    bool has_moved = amb_release_back(&sub->release, number);
    if (conn->link == NULL || conn->link_state.is_closing || sub->life.is_gone) {
        return;
    }
    if (has_moved) {
        amb_link_flow(conn->link, AMB_FLOW_RELEASE, sub->handle, sub->release.upto);
        conn->link_state.must_flush =
            is_release_due(conn, sub, msgs, bytes) || conn->link_state.must_flush;
    }
    uint64_t first, count;
    while (amb_release_range(&sub->release, &first, &count)) {
        send_range(conn, sub->handle, first, count);
    }
    amb_sub_free_handle(sub);
}

void amb_arrival_take_back(struct amb_conn *conn)
{
    struct amb_mpsc_node *node = amb_mpsc_take_all(&conn->returned);
    while (node != NULL) {
        struct amb_arrival *arrival = AMB_CONTAINER_OF(node, struct amb_arrival, returned);
        node = node->next;
        struct amb_sub *sub = arrival->sub;
        uint64_t number = arrival->number, bytes = arrival->body_len;
        uint32_t msgs = arrival->count;
        bool is_of_session = arrival->life == conn->session.life;
        /* First the segment, then the word to the broker that it is free. */
        recycle(arrival);
        if (sub != NULL) {
            if (is_of_session) {
                report(conn, sub, number, msgs, bytes);
            }
            amb_sub_unref(sub);
        }
        if (amb_list_is_empty(&conn->receive.outstanding)) {
            amb_conn_changed(conn); /* amb_drain waits for the last one. */
        }
    }
}

void amb_arrival_release(struct amb_arrival *arrival, uint32_t n)
{
    /* Acquire: the thread that takes it back sees all reads of the payload as done. */
    if (atomic_fetch_sub_explicit(&arrival->refs, n, memory_order_acq_rel) != n) {
        return;
    }
    struct amb_conn *conn = arrival->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return; /* The parent's. */
    }
    /* If no other is ready our caller will look for one, or answer: the broker hears of this then.
     */
    bool may_wait = arrival->sub != NULL &&
                    !atomic_load_explicit(&arrival->sub->arrivals.has_ready, memory_order_relaxed);
    /* The delivery's own reference may go with it, on another thread, before we are done. */
    amb_conn_ref(conn);
    (void)amb_mpsc_push(&conn->returned, &arrival->returned);
    if (amb_conn_trylock(conn)) {
        amb_arrival_take_back(conn);
        amb_conn_push(conn, may_wait);
        if (conn->io.is_lingering) {
            amb_io_kick(conn);
        }
        amb_conn_unlock(conn);
    }
    amb_conn_unref(conn);
}

void amb_arrivals_init(struct amb_conn *conn)
{
    amb_list_init(&conn->receive.outstanding);
    amb_list_init(&conn->receive.topics);
    amb_buffers_init(&conn->receive.buffers, AMB_MEMORY_MAX);
}

void amb_arrivals_fini(struct amb_conn *conn)
{
    for (unsigned i = 0; i < 3; i++) {
        while (conn->receive.unused[i] != NULL) {
            void *arrival = conn->receive.unused[i];
            memcpy(&conn->receive.unused[i], arrival, sizeof(void *));
            free(arrival);
        }
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->receive.topics)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct amb_topic_name, node));
    }
    amb_buffers_fini(&conn->receive.buffers);
}

size_t amb_arrival_take(struct amb_arrival *arrival, struct amb_msg **out, size_t max)
{
    uint32_t taken = atomic_load_explicit(&arrival->taken, memory_order_relaxed);
    uint32_t left = arrival->count - taken;
    uint32_t n = max < left ? (uint32_t)max : left;
    struct amb_body_iter iter = arrival->iter;
    amb_assert(n <= iter.left); /* The body was checked against its head. */
    for (uint32_t i = 0; i < n; i++) {
        const struct amb_record *record = iter.record++;
        if (iter.offset != NULL) {
            iter.payload = iter.base + *iter.offset++;
        }
        struct amb_msg *msg = &arrival->msgs[taken + i];
        atomic_init(&msg->refs, 1);
        msg->index = taken + i;
        msg->payload = iter.payload;
        msg->record = record;
        msg->props = iter.props;
        iter.payload += amb_payload_padded(record->len);
        iter.props += amb_props_padded(record->props_len);
        out[i] = msg;
    }
    iter.left -= n;
    arrival->iter = iter;
    atomic_store_explicit(&arrival->taken, taken + n, memory_order_relaxed);
    return n;
}
