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
#include "client/memory/slots.h"
#include "client/memory/slots_life.h"
#include "client/memory/view.h"
#include "client/message/arrival.h"
#include "client/message/fetch.h"
#include "client/message/returns.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "client/publish/lease.h"
#include "client/request/replies.h"
#include "client/session/fork.h"
#include "client/subscribe/ack.h"
#include "wire/tls/tls_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct amb_conn *amb_conn_create(void)
{
    struct amb_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    atomic_init(&conn->refs, 1);
    amb_mpsc_init(&conn->returned);
    (void)pthread_mutex_init(&conn->lock, NULL);
    amb_conn_io_init(&conn->io);
    amb_conn_driver_init(&conn->driver);
    amb_conn_link_init(&conn->link_state);
    amb_conn_notify_init(&conn->notify);
    amb_conn_events_init(&conn->events);
    amb_conn_control_init(&conn->control);
    amb_conn_error_init(&conn->error);
    conn->again.cancel_fd = -1;
    amb_views_init(conn);
    amb_leases_init(&conn->leases);
    amb_regions_init(conn);
    amb_conn_gpus_init(conn);
    amb_arrivals_init(conn);
    amb_fetches_init(conn);
    amb_conn_acks_init(conn);
    amb_batches_init(conn, AMB_SEND_MEMORY_MAX);
    amb_list_init(&conn->registry);
    return conn;
}

void amb_conn_free(struct amb_conn *conn)
{
    amb_fork_unregister(conn);
    amb_arrivals_fini(conn);
    amb_conn_acks_fini(conn);
    amb_fetches_fini(conn);
    amb_views_fini(conn);
    amb_leases_fini(conn);
    amb_lease_cache_fini(conn);
    amb_batches_fini(conn);
    amb_regions_fini(conn);
    amb_imports_fini(conn);
    amb_conn_gpus_fini(conn);
    amb_replies_fini(conn);
    amb_again_fini(&conn->again);
    amb_conn_control_fini(&conn->control);
    amb_conn_events_fini(&conn->events);
    amb_conn_error_fini(&conn->error);
    (void)pthread_mutex_destroy(&conn->lock);
    free(conn);
}

/* ---- the end ---- */

void amb_conn_close_fd(int *fd)
{
    int number = *fd;
    *fd = -1;
    if (number >= 0) {
        (void)close(number);
    }
}

void amb_conn_close_link(struct amb_conn *conn)
{
    if (conn->link == NULL || conn->link_state.is_closing) {
        return;
    }
    conn->link_state.is_closing = true;
    amb_conn_disarm(conn);
    if (amb_link_close(conn->link)) {
        conn->link = NULL;
        conn->link_state.is_closed = true;
    }
}

/* The subscriptions' places in the table; deliveries that are out keep theirs alive. */
static void forget_subs(struct amb_conn *conn)
{
    for (uint32_t i = 0; i < conn->handles.sub_high; i++) {
        struct amb_sub *sub = conn->handles.subs[i];
        if (sub != NULL) {
            conn->handles.subs[i] = NULL;
            sub->life.is_gone = true;
            amb_sub_unref(sub);
        }
    }
}

void amb_conn_teardown(struct amb_conn *conn)
{
    amb_arrival_take_back(conn);
    amb_views_drop_all(conn);
    amb_leases_drop_all(conn);
    amb_imports_over(conn);
    if (conn->control.fd >= 0 && conn->session.down == AMB_OK) {
        Amb__Control__Control message;
        amb__control__control__init(&message);
        Amb__Control__Bye bye;
        amb__control__bye__init(&bye);
        message.bye = &bye;
        message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
        amb_control_send(conn, &message);
    }
    if (conn->session.down == AMB_OK) {
        conn->session.down = AMB_ECLOSED;
        (void)snprintf(conn->session.down_text, sizeof(conn->session.down_text),
                       "the connection is closed");
        atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_DOWN, memory_order_release);
    }
    amb_conn_close_link(conn);
    amb_client_ucx_end(conn, AMB_CLIENT_UCX_END_NS);
    forget_subs(conn);
    amb_control_fail_all(conn, AMB_ECLOSED, "the connection is closed");
    if (conn->notify.user_fd == conn->notify.event_fd) {
        conn->notify.user_fd = -1;
    }
    amb_conn_close_fd(&conn->notify.user_fd);
    amb_conn_close_fd(&conn->link_state.epoll_fd);
    if (conn->control.tls != NULL) {
        amb_tls_farewell(conn->control.tls);
        amb_tls_destroy(&conn->control.tls);
    }
    amb_conn_close_fd(&conn->control.fd);
    amb_conn_close_fd(&conn->control.passed_fd);
    amb_conn_close_fd(&conn->driver.wake_fd);
    amb_conn_close_fd(&conn->io.wake_fd);
    amb_conn_close_fd(&conn->notify.event_fd);
    amb_conn_close_fd(&conn->notify.timer_fd);
}
