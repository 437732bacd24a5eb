/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's life apart from its calls: made, locked, lost, torn down, freed.
 */
#include "client/batches.h"
#include "client/conn.h"
#include "client/fetch.h"

#include "client/ack.h"

#include "client/control.h"
#include "client/delivery.h"
#include "client/due.h"
#include "client/gpu.h"
#include "client/import.h"
#include "client/inbox.h"
#include "client/lease.h"
#include "client/options.h"
#include "client/pub.h"
#include "client/reconnect.h"
#include "client/region.h"
#include "client/segment.h"
#include "client/slots.h"
#include "client/sub.h"
#include "client/ucx.h"
#include "wire/base/assert.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UCX_END_NS (10 * AMB_NS_PER_SEC)

struct amb_conn *amb_conn_create(void)
{
    struct amb_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    atomic_init(&conn->refs, 1);
    amb_mpsc_init(&conn->returned);
    (void)pthread_mutex_init(&conn->lock, NULL);
    (void)pthread_mutex_init(&conn->event_lock, NULL);
    (void)pthread_mutex_init(&conn->error_lock, NULL);
    (void)pthread_mutex_init(&conn->gpu_lock, NULL);
    (void)pthread_mutex_init(&conn->region_lock, NULL);
    conn->link_ep = conn->wake_fd = conn->io_fd = conn->event_fd = conn->user_fd = -1;
    conn->timer_fd = conn->control_fd = conn->reader_fd = -1;
    conn->path = "";
    amb_control_reader_init(&conn->reader);
    amb_list_init(&conn->requests);
    amb_list_init(&conn->segments);
    amb_list_init(&conn->old_segments);
    conn->again.cancel_fd = -1;
    amb_list_init(&conn->topics);
    amb_list_init(&conn->outstanding);
    amb_list_init(&conn->acking);
    amb_list_init(&conn->ack_frames);
    amb_list_init(&conn->fetches);
    amb_batches_init(conn, AMB_SEND_MEMORY_MAX);
    amb_leases_init(&conn->leases);
    amb_list_init(&conn->registry);
    amb_buffers_init(&conn->buffers, AMB_MEMORY_MAX);
    amb_buffers_init(&conn->lease_buffers, AMB_MEMORY_MAX);
    return conn;
}

static void conn_free(struct amb_conn *conn)
{
    amb_fork_unregister(conn);
    amb_control_reader_fini(&conn->reader);
    amb_deliveries_fini(conn);
    amb_ack_frames_fini(conn);
    amb_fetches_fini(conn);
    amb_segments_fini(conn);
    amb_leases_fini(conn);
    amb_lease_cache_fini(conn);
    amb_buffers_fini(&conn->buffers);
    amb_buffers_fini(&conn->lease_buffers);
    amb_batches_fini(conn);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->topics)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct amb_topic_name, node));
    }
    amb_regions_fini(conn);
    amb_imports_fini(conn);
    amb_gpus_fini(conn);
    amb_inbox_fini(conn);
    amb_again_fini(&conn->again);
    free(conn->out);
    (void)pthread_mutex_destroy(&conn->lock);
    (void)pthread_mutex_destroy(&conn->event_lock);
    (void)pthread_mutex_destroy(&conn->error_lock);
    (void)pthread_mutex_destroy(&conn->gpu_lock);
    (void)pthread_mutex_destroy(&conn->region_lock);
    free(conn);
}

void amb_conn_ref(struct amb_conn *conn)
{
    atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
}

void amb_conn_unref(struct amb_conn *conn)
{
    /* Acquire: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&conn->refs, 1, memory_order_acq_rel) == 1) {
        conn_free(conn);
    }
}

/* ---- lock ---- */

void amb_conn_lock(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->lock);
}

bool amb_conn_trylock(struct amb_conn *conn)
{
    return pthread_mutex_trylock(&conn->lock) == 0;
}

static void unlock_once(struct amb_conn *conn)
{
    if (conn->has_changed) {
        amb_conn_tell(conn);
    }
    uint32_t unrefs = conn->unrefs;
    conn->unrefs = 0;
    (void)pthread_mutex_unlock(&conn->lock);
    if (unrefs != 0) {
        /* Never the last: whoever unlocks holds one of its own. */
        uint32_t before = atomic_fetch_sub_explicit(&conn->refs, unrefs, memory_order_acq_rel);
        amb_assert(before > unrefs);
    }
}

void amb_conn_push(struct amb_conn *conn, bool may_wait)
{
    if (!conn->must_flush || conn->link == NULL || conn->is_link_closing) {
        return;
    }
    bool is_attended = !conn->driver_sleeps &&
                       (conn->has_driver ||
                        atomic_load_explicit(&conn->io_mode, memory_order_relaxed) == AMB_IO_TICK);
    if (!is_attended || (!conn->is_busy && !may_wait)) {
        amb_conn_flush_link(conn);
    }
}

void amb_conn_unlock(struct amb_conn *conn)
{
    unlock_once(conn);
    while (__builtin_expect(!amb_mpsc_is_empty(&conn->returned), 0) && amb_conn_trylock(conn)) {
        amb_delivery_take_back(conn);
        amb_conn_push(conn, false);
        unlock_once(conn);
    }
}

/* ---- the end ---- */

static void close_link(struct amb_conn *conn)
{
    if (conn->link == NULL || conn->is_link_closing) {
        return;
    }
    conn->is_link_closing = true;
    amb_conn_disarm(conn);
    if (amb_link_close(conn->link)) {
        conn->link = NULL;
        conn->is_link_closed = true;
    }
}

/* Why, for good or for now; what is due to the program and to those who wait. */
static void note_down(struct amb_conn *conn, enum amb_status why, const char *text)
{
    conn->down = why;
    (void)snprintf(conn->down_text, sizeof(conn->down_text), "%s",
                   text != NULL && text[0] != '\0' ? text : amb_status_text(why));
}

static void tell_down(struct amb_conn *conn)
{
    amb_due_callback(conn);
    amb_conn_changed(conn);
    amb_conn_wake_all(conn);
    if (conn->has_io_thread) {
        amb_io_kick(conn);
    }
}

/* Nothing follows: everything published is settled. */
static void end_for_good(struct amb_conn *conn, enum amb_status why)
{
    /* Release: pairs with the acquire of amb_conn_trouble, which reads `down` and its text. */
    atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_DOWN, memory_order_release);
    for (uint32_t i = 0; i < conn->pub_high; i++) {
        if (conn->pubs[i] != NULL) {
            amb_pub_settle_all(conn->pubs[i], why);
        }
    }
}

static void event_down(struct amb_conn *conn, bool is_lost)
{
    (void)amb_conn_fail(conn, conn->down, "%s", conn->down_text);
    amb_event_session(conn, is_lost ? AMB_EVENT_LOST : AMB_EVENT_CLOSED, conn->down,
                      conn->down_text);
}

/* Keeps what was not sent, and what the program holds. False: there is no thread to go on. */
static bool go_away(struct amb_conn *conn)
{
    atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_AWAY, memory_order_release);
    for (uint32_t i = 0; i < conn->pub_high; i++) {
        if (conn->pubs[i] != NULL) {
            amb_pub_lose(conn->pubs[i]);
        }
    }
    return amb_reconnect_begin(conn);
}

void amb_conn_lost(struct amb_conn *conn, enum amb_status why, const char *text)
{
    if (conn->down != AMB_OK) {
        return;
    }
    if (why == AMB_OK || why == AMB_EAGAIN) {
        why = AMB_ELOST;
    }
    bool is_own_end = amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING);
    bool comes_back = amb_reconnect_may(conn, why);
    note_down(conn, why, text);
    close_link(conn);
    amb_control_fail_all(conn, why, conn->down_text);
    comes_back = comes_back && go_away(conn);
    if (!comes_back) {
        end_for_good(conn, why);
    }
    if (!is_own_end) {
        event_down(conn, comes_back || why == AMB_ELOST || why == AMB_EPROTO);
    }
    tell_down(conn);
}

void amb_conn_give_up(struct amb_conn *conn, enum amb_status why, const char *text)
{
    note_down(conn, why, text);
    end_for_good(conn, why);
    event_down(conn, false);
    tell_down(conn);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* The subscriptions' places in the table; deliveries that are out keep theirs alive. */
static void forget_subs(struct amb_conn *conn)
{
    for (uint32_t i = 0; i < conn->sub_high; i++) {
        struct amb_sub *sub = conn->subs[i];
        if (sub != NULL) {
            conn->subs[i] = NULL;
            sub->is_gone = true;
            amb_sub_unref(sub);
        }
    }
}

void amb_conn_teardown(struct amb_conn *conn)
{
    amb_delivery_take_back(conn);
    amb_segments_drop_all(conn);
    amb_leases_drop_all(conn);
    if (conn->control_fd >= 0 && conn->down == AMB_OK) {
        Amb__Control__Control message;
        amb__control__control__init(&message);
        Amb__Control__Bye bye;
        amb__control__bye__init(&bye);
        message.bye = &bye;
        message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
        amb_control_send(conn, &message);
    }
    if (conn->down == AMB_OK) {
        conn->down = AMB_ECLOSED;
        (void)snprintf(conn->down_text, sizeof(conn->down_text), "the connection is closed");
        atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_DOWN, memory_order_release);
    }
    close_link(conn);
    /* Endpoints end in their own time, which UCX bounds; so do we. */
    int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), UCX_END_NS);
    while (conn->link != NULL && conn->ucx_worker != NULL && amb_clock_monotonic_ns() < deadline) {
        (void)amb_client_ucx_progress(conn);
        (void)sched_yield();
    }
    if (conn->link == NULL) {
        amb_client_ucx_fini(conn);
    } /* Else UCX keeps its worker: better lost than freed under it. */
    forget_subs(conn);
    amb_control_fail_all(conn, AMB_ECLOSED, "the connection is closed");
    if (conn->user_fd == conn->event_fd) {
        conn->user_fd = -1;
    }
    close_fd(&conn->user_fd);
    close_fd(&conn->link_ep);
    close_fd(&conn->control_fd);
    close_fd(&conn->reader_fd);
    close_fd(&conn->wake_fd);
    close_fd(&conn->io_fd);
    close_fd(&conn->event_fd);
    close_fd(&conn->timer_fd);
}
