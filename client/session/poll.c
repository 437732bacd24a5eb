/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/poll.h"

#include "client/batch/pub.h"
#include "client/batch/pub_callback.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/inside.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/message/landing.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "client/publish/room_event.h"
#include "client/request/replies.h"
#include "client/session/dispatch.h"
#include "client/subscribe/bring.h"

#include <unistd.h>

/* ---- callbacks ---- */

static void call_event(struct amb_conn *conn, const struct amb_event *event)
{
    conn->events.on_event(conn, event, conn->events.arg);
    amb_event_end(conn);
}

static unsigned run_events(struct amb_conn *conn, unsigned max)
{
    unsigned ran = 0;
    struct amb_event_cell cell;
    while (ran < max && amb_event_take(conn, &cell)) {
        cell.event.text = cell.text;
        call_event(conn, &cell.event);
        ran++;
    }
    return ran;
}

/* Lock held, given up meanwhile. */
static unsigned run_rooms(struct amb_conn *conn, unsigned max)
{
    unsigned ran = 0;
    struct amb_event event;
    while (ran < max && amb_room_take(conn, &event)) {
        amb_conn_unlock(conn);
        call_event(conn, &event);
        amb_conn_lock(conn);
        ran++;
    }
    return ran;
}

static unsigned run_messages(struct amb_sub *sub, unsigned max)
{
    struct amb_conn *conn = sub->conn;
    unsigned ran = 0;
    sub->callback.is_running = true;
    sub->callback.thread = pthread_self();
    atomic_fetch_add_explicit(&sub->refs, 1, memory_order_relaxed);
    amb_conn_unlock(conn);
    struct amb_msg *msg;
    while (ran < max && !atomic_load_explicit(&sub->life.is_shut, memory_order_relaxed) &&
           amb_sub_take(sub, &msg, 1) != 0) {
        sub->callback.on_message(msg, sub->callback.arg);
        amb_msg_release(msg);
        ran++;
    }
    amb_conn_lock(conn);
    sub->callback.is_running = false;
    amb_conn_changed(conn);
    amb_sub_unref(sub);
    return ran;
}

/* Is it read by amb_next, of the program? */
static bool is_for_next(const struct amb_sub *sub)
{
    return sub->callback.on_message == NULL && !sub->is_inbox;
}

static bool sub_is_due(const struct amb_sub *sub)
{
    return sub != NULL && sub->callback.on_message != NULL && !sub->callback.is_running &&
           amb_sub_has_ready(sub);
}

static bool pub_is_due(const struct amb_pub *pub)
{
    return pub != NULL && pub->settle.range_count != 0 && !pub->callback.is_running;
}

unsigned amb_callbacks_run(struct amb_conn *conn, unsigned max)
{
    const struct amb_conn *outer = amb_callbacks_enter(conn);
    unsigned ran = run_events(conn, max);
    ran += amb_replies_run(conn, max - ran);
    amb_conn_lock(conn);
    ran += run_rooms(conn, max - ran);
    for (uint32_t i = 0; i < conn->handles.pub_high && ran < max; i++) {
        if (pub_is_due(conn->handles.pubs[i])) {
            ran += amb_pub_run_settled(conn->handles.pubs[i], max - ran);
        }
    }
    /* Each turn begins behind where the last one ended, so that no subscription starves. */
    uint32_t high = conn->handles.sub_high, start = conn->notify.next_sub;
    for (uint32_t i = 0; i < high && ran < max; i++) {
        uint32_t at = (start + i) % high;
        if (sub_is_due(conn->handles.subs[at])) {
            conn->notify.next_sub = at + 1;
            ran += run_messages(conn->handles.subs[at], max - ran);
        }
    }
    amb_conn_unlock(conn);
    amb_callbacks_leave(outer);
    return ran;
}

static bool is_callback_due(struct amb_conn *conn)
{
    amb_replies_turn(conn);
    if (amb_replies_is_due(conn)) {
        return true;
    }
    if (amb_event_is_due(conn, amb_room_is_ready(conn))) {
        return true;
    }
    for (uint32_t i = 0; conn->notify.settled_wanted != 0 && i < conn->handles.pub_high; i++) {
        if (pub_is_due(conn->handles.pubs[i])) {
            return true;
        }
    }
    for (uint32_t i = 0; conn->notify.messages_wanted != 0 && i < conn->handles.sub_high; i++) {
        if (sub_is_due(conn->handles.subs[i])) {
            return true;
        }
    }
    return false;
}

/* Has a message arrived since the last amb_poll that amb_next would still give? Lock held. */
static bool has_news(struct amb_conn *conn)
{
    for (uint32_t i = 0; conn->notify.has_news && i < conn->handles.sub_high; i++) {
        if (conn->handles.subs[i] != NULL && is_for_next(conn->handles.subs[i]) &&
            amb_sub_has_ready(conn->handles.subs[i])) {
            return true;
        }
    }
    conn->notify.has_news = false; /* Somebody has taken it already. */
    return false;
}

static bool is_due(void *arg)
{
    struct amb_conn *conn = arg;
    return is_callback_due(conn) || has_news(conn);
}

/* ---- the calls ---- */

static int64_t left_ns(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX) {
        return AMB_FOREVER;
    }
    int64_t left = deadline_ns - amb_clock_monotonic_ns();
    return left > 0 ? left : AMB_NOWAIT;
}

/* How long amb_poll may sleep: a request's time may be over, or memory is to be asked for again.
 * Lock held. */
static int64_t patience(const struct amb_conn *conn, int64_t timeout_ns)
{
    int64_t shortest = amb_replies_patience(conn, timeout_ns);
    for (uint32_t i = 0; conn->notify.messages_wanted != 0 && i < conn->handles.sub_high; i++) {
        const struct amb_sub *sub = conn->handles.subs[i];
        if (sub != NULL && sub->callback.on_message != NULL) {
            shortest = amb_landing_patience(sub, shortest);
        }
    }
    return shortest;
}

/* Waits for something to do. Lock held. */
static enum amb_status wait_due(struct amb_conn *conn, struct amb_wait *wait, int64_t deadline_ns)
{
    for (;;) {
        int64_t whole = wait->timeout_ns;
        wait->timeout_ns = patience(conn, whole);
        bool is_cut = wait->timeout_ns != whole;
        enum amb_status status = amb_conn_wait(conn, wait);
        wait->timeout_ns = whole;
        if (status != AMB_ETIMEDOUT || !is_cut) {
            return status;
        }
        wait->timeout_ns = left_ns(deadline_ns);
    }
}

/* Waits, then runs what is due. Another thread may have done the work that this one was woken for:
 * then it waits on. Lock held on both ends. */
static enum amb_status poll_once(struct amb_conn *conn, int64_t timeout_ns)
{
    struct amb_wait wait = {.is_ready = is_due,
                            .arg = conn,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_STOPPABLE | AMB_WAIT_ASKS |
                                     (conn->notify.settled_wanted != 0 ? AMB_WAIT_FLOW : 0)};
    int64_t deadline = INT64_MAX;
    if (timeout_ns != AMB_FOREVER) {
        deadline = amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
    }
    for (;;) {
        enum amb_status status = wait_due(conn, &wait, deadline);
        bool is_news = has_news(conn);
        conn->notify.has_news = false;
        if (status != AMB_OK && status != AMB_EAGAIN) {
            return status;
        }
        amb_conn_unlock(conn);
        unsigned ran = amb_callbacks_run(conn, AMB_POLL_CALLBACKS);
        amb_conn_lock(conn);
        if (ran != 0 || is_news || timeout_ns == AMB_NOWAIT) {
            return AMB_OK;
        }
        wait.timeout_ns = left_ns(deadline);
        if (wait.timeout_ns == AMB_NOWAIT) {
            return AMB_ETIMEDOUT;
        }
    }
}

static void harvest_for_user(struct amb_conn *conn)
{
    if (conn->settings.is_poll_mode) {
        uint64_t count;
        if (conn->notify.timer_fd >= 0) {
            (void)!read(conn->notify.timer_fd, &count, sizeof(count));
        }
        amb_conn_harvest(conn);
        amb_conn_disarm(conn);
    }
}

enum amb_status amb_poll(struct amb_conn *conn, int64_t timeout_ns)
{
    if (conn == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_STOPPED);
    if (status != AMB_OK) {
        return status;
    }
    if (amb_callbacks_inside(NULL)) {
        return amb_conn_fail(conn, AMB_ESTATE, "amb_poll inside a callback");
    }
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    harvest_for_user(conn);
    if (timeout_ns == AMB_NOWAIT) {
        if (!conn->io.has_thread) {
            amb_control_service(conn);
            amb_conn_timers(conn, amb_clock_monotonic_ns());
        }
        (void)amb_conn_progress(conn);
    }
    status = poll_once(conn, timeout_ns);
    if (is_callback_due(conn)) {
        amb_notify_callback(conn); /* Another thread may wait for it. */
    } else {
        amb_notify_clear(conn);
    }
    amb_conn_arm_for_user(conn);
    amb_conn_unlock(conn);
    if (status != AMB_OK && status != AMB_ETIMEDOUT && status != AMB_ECANCELED) {
        status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_STOPPED |
                                            AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    }
    return amb_conn_leave(conn, status);
}

int amb_fd(const struct amb_conn *conn)
{
    if (conn == NULL || amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return -1;
    }
    /* Asking for it is what makes the library keep it up to date. */
    struct amb_conn *own = (struct amb_conn *)(uintptr_t)conn;
    amb_conn_lock(own);
    if (!atomic_load_explicit(&own->notify.is_fd_used, memory_order_relaxed)) {
        atomic_store_explicit(&own->notify.is_fd_used, true, memory_order_relaxed);
        bool is_over = amb_conn_has_trouble(own, AMB_TROUBLE_STOPPED | AMB_TROUBLE_DOWN);
        if (is_due(own) || is_over) {
            amb_notify_set(own);
        }
        amb_conn_arm_for_user(own);
        if (own->io.has_thread) {
            amb_io_kick(own);
        }
    }
    amb_conn_unlock(own);
    return own->notify.user_fd;
}
