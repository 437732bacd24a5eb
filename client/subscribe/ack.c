/* SPDX-License-Identifier: Apache-2.0 */
#include "client/subscribe/ack.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/wait.h"
#include "client/drive/control.h"
#include "client/drive/lock.h"
#include "client/message/arrival.h"
#include "client/message/sub.h"

#include <stdlib.h>
#include <string.h>

/* ---- frames ---- */

static struct amb_ack_frame *frame_get(struct amb_conn *conn)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->acks.unused);
    struct amb_ack_frame *frame = node == NULL ? calloc(1, sizeof(*frame))
                                               : AMB_CONTAINER_OF(node, struct amb_ack_frame, node);
    if (frame != NULL) {
        conn->acks.unused_count -= node != NULL;
        amb_list_init(&frame->node);
        memset(&frame->out, 0, sizeof(frame->out));
        frame->out.kind = AMB_CONN_TX_ACK;
    }
    return frame;
}

void amb_ack_frame_put(struct amb_conn *conn, struct amb_ack_frame *frame)
{
    if (conn->acks.unused_count >= AMB_ACK_FRAMES_CACHED) {
        free(frame);
        return;
    }
    amb_list_push_front(&conn->acks.unused, &frame->node);
    conn->acks.unused_count++;
}

void amb_conn_acks_init(struct amb_conn *conn)
{
    amb_list_init(&conn->acks.waiting);
    amb_list_init(&conn->acks.unused);
}

void amb_conn_acks_fini(struct amb_conn *conn)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->acks.unused)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct amb_ack_frame, node));
    }
    conn->acks.unused_count = 0;
}

/* The content of one frame. */
struct word {
    enum amb_ack_kind kind;
    uint64_t number;
    uint32_t first, count;
    int64_t delay_ns;
    const char *reason;
};

static enum amb_status send_word(struct amb_sub *sub, const struct word *word)
{
    struct amb_conn *conn = sub->conn;
    struct amb_ack_frame *frame = frame_get(conn);
    if (frame == NULL) {
        return AMB_ENOMEM;
    }
    size_t len = word->reason == NULL ? 0 : strnlen(word->reason, AMB_ACK_REASON_MAX);
    frame->out.frame = (struct amb_frame){
        .type = len != 0 ? AMB_FRAME_TERM : AMB_FRAME_ACK,
        .handle = sub->handle,
        .number = word->number,
        .first = word->first,
        .count = word->count,
        .status = (int32_t)word->kind,
        .time_ns = word->delay_ns,
        .data_len = len,
    };
    if (len != 0) {
        memcpy(frame->reason, word->reason, len);
        frame->out.tx.data = frame->reason;
    }
    enum amb_status status = amb_conn_tx_send(conn, &frame->out);
    if (status != AMB_EAGAIN) {
        amb_ack_frame_put(conn, frame);
    }
    if (status == AMB_OK || status == AMB_EAGAIN) {
        sub->acks.sent++;
        return AMB_OK;
    }
    return status;
}

/* The run that waits, if there is one. */
static enum amb_status send_run(struct amb_sub *sub)
{
    struct amb_acks *acks = &sub->acks;
    amb_spinlock_lock(&acks->lock);
    const struct word word = {.kind = AMB_ACK_KIND_ACK,
                              .number = acks->number,
                              .first = acks->first,
                              .count = acks->count};
    acks->count = 0;
    amb_spinlock_unlock(&acks->lock);
    amb_list_remove(&acks->node);
    if (word.count == 0) {
        return AMB_OK;
    }
    return acks->life == sub->conn->session.life ? send_word(sub, &word) : AMB_OK;
}

void amb_acks_send(struct amb_conn *conn)
{
    while (!amb_list_is_empty(&conn->acks.waiting)) {
        struct amb_acks *acks = AMB_CONTAINER_OF(conn->acks.waiting.next, struct amb_acks, node);
        (void)send_run(AMB_CONTAINER_OF(acks, struct amb_sub, acks)); /* Else the link is down. */
    }
}

/* ---- the program's words ---- */

/* An ACK joins the run that there is; a cumulative one is as good as all before it. False: it does
 * not follow that run, or there is none. */
static bool join_run(struct amb_acks *acks, const struct amb_arrival *arrival, uint32_t index)
{
    amb_spinlock_lock(&acks->lock);
    bool is_next = acks->count != 0 && acks->number == arrival->number &&
                   acks->life == arrival->life && index == acks->first + acks->count;
    if (is_next && acks->mode == AMB_ACK_CUMULATIVE) {
        acks->first = index;
    } else if (is_next) {
        acks->count++;
    }
    amb_spinlock_unlock(&acks->lock);
    return is_next;
}

/* Will the caller be back with another word? It has taken more of this delivery together with this
 * message, or there is more for it to look for. */
static bool is_followed(const struct amb_sub *sub, const struct amb_arrival *arrival,
                        uint32_t index)
{
    return index + 1 < atomic_load_explicit(&arrival->taken, memory_order_relaxed) ||
           atomic_load_explicit(&sub->arrivals.has_ready, memory_order_relaxed);
}

/*
 * The same without the connection's lock, while the caller will be back and has nothing else to
 * report. So that lock is taken twice a delivery, and not for each of its messages.
 */
static bool join_quickly(struct amb_sub *sub, const struct amb_arrival *arrival, uint32_t index)
{
    return index + 1 < arrival->count && is_followed(sub, arrival, index) &&
           atomic_load_explicit(&sub->conn->trouble, memory_order_acquire) == 0 &&
           join_run(&sub->acks, arrival, index);
}

/* Would an ACK of that message say all that the run says? */
static bool outdates_run(struct amb_acks *acks, const struct amb_arrival *arrival, uint32_t index)
{
    amb_spinlock_lock(&acks->lock);
    bool is_so =
        acks->mode == AMB_ACK_CUMULATIVE && acks->count != 0 &&
        (acks->number == arrival->number ? index >= acks->first : arrival->number > acks->number);
    if (is_so) {
        acks->count = 0;
    }
    amb_spinlock_unlock(&acks->lock);
    return is_so;
}

static enum amb_status add_to_run(struct amb_sub *sub, const struct amb_arrival *arrival,
                                  uint32_t index)
{
    struct amb_acks *acks = &sub->acks;
    if (join_run(acks, arrival, index)) {
        return index + 1 == arrival->count ? send_run(sub) : AMB_OK;
    }
    if (outdates_run(acks, arrival, index)) {
        amb_list_remove(&acks->node);
    }
    enum amb_status status = send_run(sub);
    amb_spinlock_lock(&acks->lock);
    acks->life = arrival->life;
    acks->number = arrival->number;
    acks->first = index;
    acks->count = 1;
    amb_spinlock_unlock(&acks->lock);
    amb_list_push_back(&sub->conn->acks.waiting, &acks->node);
    return index + 1 == arrival->count ? send_run(sub) : status;
}

static enum amb_status say_locked(struct amb_sub *sub, const struct amb_arrival *arrival,
                                  const struct word *word)
{
    struct amb_conn *conn = sub->conn;
    if (arrival->life != conn->session.life || amb_conn_has_trouble(conn, AMB_TROUBLE_AWAY)) {
        return AMB_ESTALE; /* Its session is gone, and with it the delivery. */
    }
    if (conn->session.down != AMB_OK) {
        return conn->session.down;
    }
    if (sub->life.is_ending || sub->life.is_gone) {
        return AMB_ECLOSED;
    }
    enum amb_status status;
    if (word->kind == AMB_ACK_KIND_ACK) {
        status = add_to_run(sub, arrival, word->first);
    } else {
        status = send_run(sub);
        status = status == AMB_OK ? send_word(sub, word) : status;
    }
    conn->link_state.must_flush = true;
    return status;
}

static enum amb_status say(struct amb_msg *msg, struct word word)
{
    if (msg == NULL || word.delay_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_arrival *arrival = amb_msg_arrival(msg);
    struct amb_sub *sub = arrival->sub;
    struct amb_conn *conn = arrival->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED;
    }
    if (sub == NULL || sub->acks.mode == AMB_ACK_NONE) {
        return amb_conn_fail(conn, AMB_ESTATE,
                             "the subscription has no acknowledgements: see "
                             "amb_sub_options.ack");
    }
    if (word.kind == AMB_ACK_KIND_ACK && join_quickly(sub, arrival, msg->index)) {
        return AMB_OK;
    }
    word.number = arrival->number;
    word.first = msg->index;
    word.count = 1;
    bool may_wait = is_followed(sub, arrival, msg->index); /* It leaves with the next one. */
    amb_conn_lock(conn);
    enum amb_status status = say_locked(sub, arrival, &word);
    amb_conn_push(conn, may_wait);
    amb_conn_unlock(conn);
    return status;
}

enum amb_status amb_msg_ack(struct amb_msg *msg)
{
    return say(msg, (struct word){.kind = AMB_ACK_KIND_ACK});
}

enum amb_status amb_msg_nak(struct amb_msg *msg, int64_t delay_ns)
{
    return say(msg, (struct word){.kind = AMB_ACK_KIND_NAK, .delay_ns = delay_ns});
}

enum amb_status amb_msg_in_progress(struct amb_msg *msg)
{
    return say(msg, (struct word){.kind = AMB_ACK_KIND_IN_PROGRESS});
}

enum amb_status amb_msg_term(struct amb_msg *msg, const char *reason)
{
    return say(msg, (struct word){.kind = AMB_ACK_KIND_TERM, .reason = reason});
}

void amb_acks_refuse(struct amb_arrival *arrival)
{
    struct amb_sub *sub = arrival->sub;
    struct amb_conn *conn = arrival->conn;
    const struct word word = {
        .kind = AMB_ACK_KIND_NAK, .number = arrival->number, .count = arrival->count};
    amb_conn_lock(conn);
    (void)say_locked(sub, arrival, &word); /* Else it comes again by itself. */
    amb_conn_unlock(conn);
}

/* ---- what the broker has counted ---- */

static void ask_sync(struct amb_sub *sub, bool stop, struct amb_control_request *request)
{
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__AckSync sync;
    amb__control__ack_sync__init(&sync);
    sync.handle = sub->handle;
    sync.acks = sub->acks.sent;
    sync.stop = stop;
    message.ack_sync = &sync;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ACK_SYNC;
    amb_control_ask(sub->conn, &message, request);
}

enum amb_status amb_acks_sync(struct amb_conn *conn, int64_t timeout_ns)
{
    amb_acks_send(conn);
    int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
    for (uint32_t i = 0; i < conn->handles.sub_high; i++) {
        struct amb_sub *sub = conn->handles.subs[i];
        /* One that was closed is asked about, too: our Bye may overtake what it has said. */
        if (sub == NULL || sub->acks.sent == sub->acks.confirmed) {
            continue;
        }
        if (conn->link_state.must_flush && conn->link != NULL) {
            amb_conn_flush_link(conn);
        }
        struct amb_control_request request = {0};
        uint64_t sent = sub->acks.sent;
        int64_t left = timeout_ns == AMB_FOREVER ? timeout_ns : deadline - amb_clock_monotonic_ns();
        ask_sync(sub, false, &request);
        enum amb_status status =
            amb_control_wait(conn, &request, left > 0 ? left : AMB_NOWAIT, AMB_WAIT_CLOSER);
        if (status != AMB_OK && status != AMB_ENOTFOUND && status != AMB_ECLOSED) {
            return status;
        }
        if (conn->handles.subs[i] == sub) {
            sub->acks.confirmed = sent;
        }
    }
    return AMB_OK;
}

static void stopped(struct amb_conn *conn, struct amb_control_request *request)
{
    (void)conn;
    free(request);
}

void amb_acks_stop(struct amb_sub *sub)
{
    struct amb_control_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return; /* More comes, and goes back unread. */
    }
    request->on_answer = stopped;
    (void)send_run(sub);
    ask_sync(sub, true, request);
}
