/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/arm.h"

#include "client/conn/conn.h"
#include "client/conn/options.h"
#include "client/drive/notify.h"
#include "client/drive/ucx.h"
#include "client/drive/wake.h"

#include <poll.h>
#include <sys/epoll.h>

bool amb_conn_arm(struct amb_conn *conn, bool want_flow)
{
    if (conn->link == NULL) {
        return true;
    }
    if (!amb_link_arm(conn->link, want_flow)) {
        amb_link_disarm(conn->link);
        return false;
    }
    if (!amb_client_ucx_arm(conn)) {
        amb_link_disarm(conn->link);
        return false;
    }
    conn->link_state.is_armed = true;
    conn->link_state.is_armed_for_room = conn->link->queued != 0;
    return true;
}

bool amb_conn_can_rest(const struct amb_conn *conn)
{
    return conn->link != NULL && conn->link->ops->rest != NULL && !conn->link->is_down &&
           conn->io.has_thread;
}

bool amb_conn_rest(struct amb_conn *conn, struct pollfd *out)
{
    if (!amb_link_rest(conn->link, &out->events)) {
        return false;
    }
    out->fd = amb_link_fd(conn->link);
    conn->link_state.is_armed = conn->link_state.is_at_rest = true;
    conn->link_state.is_armed_for_room = (out->events & POLLOUT) != 0;
    return true;
}

void amb_conn_rearm(struct amb_conn *conn)
{
    conn->link_state.is_armed_for_room = true; /* Once is enough. */
    if (conn->driver.is_asleep) {
        amb_conn_wake_driver(conn);
    } else if (conn->io.has_thread) {
        amb_io_kick(conn);
    } else {
        amb_notify_set(conn);
    }
}

void amb_conn_disarm(struct amb_conn *conn)
{
    if (conn->link_state.is_armed) {
        conn->link_state.is_armed = conn->link_state.is_at_rest = false;
        if (conn->link != NULL) {
            amb_link_disarm(conn->link);
        }
    }
}

void amb_conn_take_edge(struct amb_conn *conn)
{
    if (conn->link_state.epoll_fd >= 0) {
        struct epoll_event event;
        (void)epoll_wait(conn->link_state.epoll_fd, &event, 1, 0);
    }
}

void amb_conn_harvest(struct amb_conn *conn)
{
    amb_conn_take_edge(conn);
    if (conn->driver.is_asleep) {
        /* It may have gone to sleep for this edge, and will not see it any more. */
        amb_conn_wake_driver(conn);
    }
}

int64_t amb_conn_next_timer(const struct amb_conn *conn, int64_t now_ns)
{
    int64_t next = conn->control.ping_ns + conn->control.heartbeat_ns;
    if (conn->session.down != AMB_OK) {
        next = INT64_MAX;
    }
    if (atomic_load_explicit(&conn->gathering, memory_order_relaxed) != 0 &&
        next > now_ns + AMB_PUB_LINGER_NS) {
        next = now_ns + AMB_PUB_LINGER_NS;
    }
    if (atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) != 0 &&
        next > now_ns + AMB_GPU_LOOK_NS) {
        next = now_ns + AMB_GPU_LOOK_NS;
    }
    if (conn->notify.reply_ns < next) {
        next = conn->notify.reply_ns;
    }
    /* Segments that are to be mapped; without a session that waits for the next one. */
    return conn->leases.has_work && conn->session.down == AMB_OK && now_ns < next ? now_ns : next;
}

void amb_conn_arm_for_user(struct amb_conn *conn)
{
    if (!conn->settings.is_poll_mode ||
        !atomic_load_explicit(&conn->notify.is_fd_used, memory_order_relaxed) ||
        conn->driver.is_taken) {
        return;
    }
    bool want_flow = conn->notify.settled_wanted != 0 || conn->driver.flow_waits != 0;
    amb_conn_disarm(conn); /* The sleeper may want more than before. */
    if (conn->session.down == AMB_OK && !amb_conn_arm(conn, want_flow)) {
        amb_notify_set(conn);
    }
    int64_t now = amb_clock_monotonic_ns();
    int64_t next = amb_conn_next_timer(conn, now);
    if (next != INT64_MAX) {
        amb_notify_timer(conn, next - now);
    }
}
