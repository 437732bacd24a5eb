/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushing, stopping, draining, closing a connection.
 *
 *   close ─► flush ─► everybody out ─► settle, free pubs and subs ─► messages still mapped?
 *                          no: Bye, link closed, I/O thread joined
 *                          yes: the I/O thread goes on alone until the last one is released
 */
#include "client/batch/flush.h"
#include "client/batch/pub.h"
#include "client/batch/pub_callback.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/inside.h"
#include "client/conn/interrupt.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/memory/gpu_release.h"
#include "client/message/returns.h"
#include "client/message/sub.h"
#include "client/publish/implicit.h"
#include "client/publish/pub_open.h"
#include "client/request/replies.h"
#include "client/session/io.h"
#include "client/session/life.h"
#include "client/session/poll.h"
#include "client/session/reconnect.h"
#include "client/subscribe/ack.h"
#include "client/subscribe/arrivals.h"
#include "client/subscribe/subscribe.h"

void amb_stop(struct amb_conn *conn)
{
    /* Async-signal-safe: atomics, write, futex. */
    if (conn == NULL || amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return;
    }
    atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_STOPPED, memory_order_seq_cst);
    amb_conn_wake_all(conn);
    amb_notify_signal(conn);
}

/* Sends every open batch; lock held, given up in between. */
static void push_all(struct amb_conn *conn)
{
    for (uint32_t i = 0; i < conn->handles.pub_high; i++) {
        struct amb_pub *pub = conn->handles.pubs[i];
        if (pub != NULL) {
            amb_pub_push_open(pub);
        }
    }
    (void)amb_pub_flush_due(conn);
}

/* The goal of one flush: of each publisher, by handle, the last message of before the call.
 * Each call has its own, for others may publish and flush for ever. */
struct flush_goal {
    const struct amb_conn *conn;
    uint32_t count;
    struct {
        uint64_t number, seq;
    } pubs[AMB_HANDLES_MAX];
};

/* Lock held. */
static void set_goal(struct flush_goal *goal, const struct amb_conn *conn)
{
    goal->conn = conn;
    goal->count = conn->handles.pub_high;
    for (uint32_t i = 0; i < goal->count; i++) {
        const struct amb_pub *pub = conn->handles.pubs[i];
        goal->pubs[i].number = pub != NULL ? pub->number : 0;
        goal->pubs[i].seq =
            pub != NULL ? atomic_load_explicit(&pub->posted, memory_order_acquire) : 0;
    }
}

static bool all_settled(void *arg)
{
    const struct flush_goal *goal = arg;
    for (uint32_t i = 0; i < goal->count; i++) {
        const struct amb_pub *pub = goal->conn->handles.pubs[i];
        if (pub != NULL && pub->number == goal->pubs[i].number &&
            pub->settle.settled_seq < goal->pubs[i].seq) {
            return false;
        }
    }
    return !amb_pubs_are_closing(goal->conn);
}

typedef enum amb_status (*wait_fn)(struct amb_conn *conn, const struct amb_wait *wait);

/* Waits for what has been published so far. */
static enum amb_status flush_all(struct amb_conn *conn, int64_t timeout_ns, wait_fn wait_for)
{
    struct flush_goal goal;
    amb_conn_lock(conn);
    push_all(conn);
    set_goal(&goal, conn);
    struct amb_wait wait = {.is_ready = all_settled,
                            .arg = &goal,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_CONTROL | AMB_WAIT_CLOSER};
    enum amb_status status = wait_for(conn, &wait);
    if (status == AMB_OK) {
        /* A refusal is a frame, which a counter may have overtaken. */
        (void)amb_conn_progress(conn);
        status = conn->batches.failure;
        conn->batches.failure = AMB_OK;
        enum amb_status acked = amb_acks_sync(conn, timeout_ns);
        status = status == AMB_OK ? acked : status;
    }
    amb_conn_unlock(conn);
    return status;
}

enum amb_status amb_flush(struct amb_conn *conn, int64_t timeout_ns)
{
    if (conn == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED);
    if (status != AMB_OK) {
        return status;
    }
    amb_conn_enter(conn);
    status = flush_all(conn, timeout_ns, amb_conn_wait_asking);
    if (status != AMB_OK) {
        (void)amb_conn_fail(conn, status, "flush: %s", amb_conn_reason(conn, status));
    }
    return amb_conn_leave(conn, status);
}

/* ---- drain ---- */

static bool nothing_out(void *arg)
{
    struct amb_conn *conn = arg;
    return amb_list_is_empty(&conn->receive.outstanding);
}

enum amb_status amb_drain(struct amb_conn *conn, int64_t timeout_ns)
{
    if (conn == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED);
    if (status != AMB_OK) {
        return status;
    }
    int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    for (uint32_t i = 0; i < conn->handles.sub_high; i++) {
        struct amb_sub *sub = conn->handles.subs[i];
        if (sub != NULL && !atomic_load_explicit(&sub->life.is_shut, memory_order_relaxed)) {
            amb_sub_shut(sub);
            if (sub->acks.mode == AMB_ACK_NONE) {
                amb_sub_leave(sub);
            } else {
                amb_acks_stop(sub); /* Messages that are held may still be acknowledged. */
            }
        }
    }
    amb_conn_wake_all(conn);
    struct amb_wait wait = {
        .is_ready = nothing_out, .arg = conn, .timeout_ns = timeout_ns, .flags = AMB_WAIT_CLOSER};
    status = amb_conn_wait_asking(conn, &wait);
    for (uint32_t i = 0; i < conn->handles.sub_high && status == AMB_OK; i++) {
        if (conn->handles.subs[i] != NULL &&
            atomic_load_explicit(&conn->handles.subs[i]->life.is_shut, memory_order_relaxed)) {
            amb_sub_leave(conn->handles.subs[i]);
        }
    }
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        int64_t left = timeout_ns == AMB_FOREVER ? timeout_ns : deadline - amb_clock_monotonic_ns();
        status = amb_flush(conn, left > 0 ? left : AMB_NOWAIT);
    }
    return amb_conn_leave(conn, status);
}

/* ---- close ---- */

/* The link may still read posted payloads. Where the program does not wait for that, the session
 * ends first, and with it the link. A trickle may end each publisher's wait before it asks, so
 * the program is asked before each. Lock held. */
static void await_borrowed(struct amb_conn *conn, struct amb_pub *pub)
{
    if (amb_pub_has_nothing_borrowed(pub)) {
        return;
    }
    amb_conn_unlock(conn);
    bool is_over = amb_is_interrupted(&conn->settings.interrupt);
    amb_conn_lock(conn);
    const struct amb_wait wait = {.is_ready = amb_pub_has_nothing_borrowed,
                                  .arg = pub,
                                  .timeout_ns = AMB_FOREVER,
                                  .flags = AMB_WAIT_FLOW | AMB_WAIT_CLOSER | AMB_WAIT_LOST};
    if (is_over || amb_conn_wait_asking(conn, &wait) == AMB_ECANCELED) {
        amb_conn_lost(conn, AMB_ECLOSED, "closed while the link read posted payloads");
    }
}

/* Ends publishers and subscriptions. Callbacks for what is unsettled run on this thread. No lock
 * held. */
static void end_handles(struct amb_conn *conn)
{
    for (uint32_t i = 0; i < AMB_HANDLES_MAX; i++) {
        amb_conn_lock(conn);
        struct amb_pub *pub = conn->handles.pubs[i];
        struct amb_sub *sub = conn->handles.subs[i];
        if (pub != NULL) {
            await_borrowed(conn, pub);
            amb_pub_detach(pub, conn->session.down != AMB_OK ? conn->session.down : AMB_ECLOSED);
        }
        if (sub != NULL && !sub->life.is_user_done) {
            amb_sub_detach(sub);
        }
        amb_conn_unlock(conn);
        if (pub != NULL) {
            amb_pub_call_settled(pub);
            amb_conn_lock(conn);
            amb_conn_await_out(conn, &pub->inside);
            amb_pub_free(pub);
            amb_conn_unlock(conn);
        }
    }
}

/* Messages in segments are still out: the session goes on for them. Lock held. */
static bool linger(struct amb_conn *conn)
{
    if (conn->session.down != AMB_OK ||
        atomic_load_explicit(&conn->mapped_held, memory_order_acquire) == 0) {
        return false;
    }
    if (!conn->io.has_thread && amb_io_start(conn) != AMB_OK) {
        return false; /* The broker keeps the ranges until this process ends. */
    }
    conn->io.is_lingering = true;
    (void)pthread_detach(conn->io.thread);
    amb_io_kick(conn);
    return true;
}

static void end_session(struct amb_conn *conn)
{
    amb_conn_lock(conn);
    amb_arrival_take_back(conn);
    if (linger(conn)) {
        amb_conn_unlock(conn);
        return;
    }
    bool has_thread = conn->io.has_thread;
    conn->io.must_stop = true;
    amb_conn_unlock(conn);
    if (has_thread) {
        amb_io_kick(conn);
        (void)pthread_join(conn->io.thread, NULL);
    }
    amb_conn_lock(conn);
    amb_conn_teardown(conn);
    amb_conn_unlock(conn);
}

/* Calls may have begun while this close gave up the lock. */
static void await_calls(struct amb_conn *conn)
{
    amb_conn_lock(conn);
    amb_conn_await_out(conn, &conn->inside);
    amb_conn_unlock(conn);
}

enum amb_status amb_close(struct amb_conn *conn, int64_t timeout_ns)
{
    if (conn == NULL) {
        return AMB_OK;
    }
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED; /* The parent's threads may have been anywhere in it: left alone. */
    }
    if (amb_callbacks_inside(conn)) {
        return amb_conn_fail(conn, AMB_ESTATE, "amb_close inside a callback: use amb_stop");
    }
    enum amb_status status = AMB_OK;
    if (timeout_ns > 0) {
        status = flush_all(conn, timeout_ns, amb_conn_wait); /* Nobody calls it off. */
    }
    amb_conn_lock(conn);
    atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_CLOSING, memory_order_release);
    amb_reconnect_stop(conn);
    amb_conn_await_out(conn, &conn->inside);
    if (conn->link != NULL &&
        (conn->link_state.must_flush || !amb_list_is_empty(&conn->acks.waiting))) {
        amb_conn_flush_link(conn); /* Acknowledgements that were answered AMB_OK have been sent. */
    }
    amb_replies_end(conn, AMB_ECLOSED);
    amb_conn_unlock(conn);
    (void)amb_replies_run(conn, UINT32_MAX);
    end_handles(conn);
    while (conn->events.on_event != NULL && amb_callbacks_run(conn, AMB_POLL_CALLBACKS) != 0) {
    }
    await_calls(conn);
    amb_implicit_fini(conn);
    amb_conn_gpus_leave(conn);
    end_session(conn);
    await_calls(conn);
    amb_conn_unref(conn);
    return status;
}
