/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/life.h"

#include "client/batch/batches.h"
#include "client/conn/conn.h"
#include "client/conn/options.h"
#include "client/drive/arm.h"
#include "client/drive/control.h"
#include "client/drive/ucx.h"
#include "client/memory/gpu.h"
#include "client/memory/import.h"
#include "client/memory/region.h"
#include "client/memory/segment.h"
#include "client/memory/slots.h"
#include "client/memory/slots_life.h"
#include "client/message/delivery.h"
#include "client/message/fetch.h"
#include "client/message/returns.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "client/publish/lease.h"
#include "client/request/inbox.h"
#include "client/session/fork.h"
#include "client/subscribe/ack.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define UCX_END_NS (10 * AMB_NS_PER_SEC)

void amb_conn_free(struct amb_conn *conn)
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
    conn->reply_due_ns = INT64_MAX;
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

/* ---- the end ---- */

void amb_conn_close_link(struct amb_conn *conn)
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
    amb_conn_close_link(conn);
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
