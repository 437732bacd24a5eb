/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/notify.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"

#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- the descriptor ---- */

void amb_notify_signal(struct amb_conn *conn)
{
    uint64_t one = 1;
    if (conn->notify.event_fd >= 0) {
        (void)!write(conn->notify.event_fd, &one, sizeof(one));
    }
}

void amb_notify_set(struct amb_conn *conn)
{
    if (atomic_load_explicit(&conn->notify.is_fd_used, memory_order_relaxed) &&
        !conn->notify.is_fd_set) {
        conn->notify.is_fd_set = true;
        amb_notify_signal(conn);
    }
}

void amb_notify_clear(struct amb_conn *conn)
{
    /* After amb_stop it stays readable: the loop of the program shall see that. */
    if (conn->notify.is_fd_set &&
        !amb_conn_has_trouble(conn, AMB_TROUBLE_STOPPED | AMB_TROUBLE_DOWN)) {
        uint64_t count;
        (void)!read(conn->notify.event_fd, &count, sizeof(count));
        conn->notify.is_fd_set = false;
    }
}

void amb_notify_message(struct amb_conn *conn)
{
    conn->notify.has_news = true;
    amb_conn_changed(conn);
    amb_notify_set(conn);
}

void amb_notify_callback(struct amb_conn *conn)
{
    amb_conn_changed(conn);
    amb_notify_set(conn);
}

void amb_notify_timer(struct amb_conn *conn, int64_t delay_ns)
{
    if (conn->notify.timer_fd >= 0 &&
        atomic_load_explicit(&conn->notify.is_fd_used, memory_order_relaxed)) {
        delay_ns = delay_ns < 1000 ? 1000 : delay_ns;
        struct itimerspec when = {.it_value = {.tv_sec = delay_ns / AMB_NS_PER_SEC,
                                               .tv_nsec = delay_ns % AMB_NS_PER_SEC}};
        (void)timerfd_settime(conn->notify.timer_fd, 0, &when, NULL);
    }
}

/* ---- events ---- */

static void queue_event(struct amb_conn *conn, const struct amb_event *event, const char *text)
{
    if (conn->events.on_event == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&conn->events.lock);
    struct amb_event_cell *cell = NULL;
    if (conn->events.count != 0) {
        cell = &conn->events
                    .cells[(conn->events.first + conn->events.count - 1) % AMB_CONN_EVENTS_MAX];
        bool is_same = cell->event.type == event->type && cell->event.pub == event->pub &&
                       cell->event.sub == event->sub;
        if (is_same && event->type == AMB_EVENT_GAP) {
            cell->event.count = amb_lost_sum(cell->event.count, event->count);
            cell->event.loss = cell->event.loss == event->loss ? event->loss : AMB_LOSS_MIXED;
            cell->event.seq = event->seq;
        } else if (is_same && event->type == AMB_EVENT_SUBSCRIBERS) {
            cell->event.count = event->count;
        } else if (is_same && event->type == AMB_EVENT_LOST && event->count != 0) {
            cell->event.count = event->count; /* One more attempt. */
            cell->event.status = event->status;
        } else {
            cell = NULL;
        }
    }
    if (cell == NULL) {
        if (conn->events.count == AMB_CONN_EVENTS_MAX) { /* Nobody polls: the oldest goes. */
            conn->events.first = (conn->events.first + 1) % AMB_CONN_EVENTS_MAX;
            conn->events.count--;
        }
        cell = &conn->events.cells[(conn->events.first + conn->events.count) % AMB_CONN_EVENTS_MAX];
        conn->events.count++;
        cell->event = *event;
        cell->event.size = sizeof(*event);
        cell->event.time_ns = amb_clock_realtime_ns();
    }
    (void)snprintf(cell->text, sizeof(cell->text), "%s", text);
    (void)pthread_mutex_unlock(&conn->events.lock);
    amb_notify_callback(conn);
}

void amb_event_session(struct amb_conn *conn, enum amb_event_type type, enum amb_status status,
                       const char *text)
{
    struct amb_event event = {.type = type, .status = status};
    if (type == AMB_EVENT_LOST) {
        event.count = conn->again.tried;
    }
    queue_event(conn, &event, text);
}

void amb_event_sub_closed(struct amb_conn *conn, struct amb_sub *sub, enum amb_status status,
                          const char *text)
{
    struct amb_event event = {.type = AMB_EVENT_CLOSED, .status = status, .sub = sub};
    queue_event(conn, &event, text);
}

void amb_event_gap(struct amb_conn *conn, struct amb_sub *sub, uint64_t count, enum amb_loss loss,
                   uint64_t seq)
{
    struct amb_event event = {
        .type = AMB_EVENT_GAP, .loss = loss, .sub = sub, .count = count, .seq = seq};
    queue_event(conn, &event, "messages were lost");
}

void amb_event_slow(struct amb_conn *conn, struct amb_sub *sub, bool is_slow, uint64_t count)
{
    struct amb_event event = {
        .type = is_slow ? AMB_EVENT_SLOW : AMB_EVENT_RECOVERED, .sub = sub, .count = count};
    queue_event(conn, &event,
                is_slow ? "a subscription does not keep up" : "a subscription keeps up again");
}

void amb_event_subscribers(struct amb_conn *conn, struct amb_pub *pub, uint32_t count)
{
    struct amb_event event = {.type = AMB_EVENT_SUBSCRIBERS, .pub = pub, .count = count};
    queue_event(conn, &event, "the number of subscribers has changed");
}

bool amb_event_forget(struct amb_conn *conn, const struct amb_pub *pub, const struct amb_sub *sub)
{
    (void)pthread_mutex_lock(&conn->events.lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < conn->events.count; i++) {
        struct amb_event_cell *cell =
            &conn->events.cells[(conn->events.first + i) % AMB_CONN_EVENTS_MAX];
        if ((pub != NULL && cell->event.pub == pub) || (sub != NULL && cell->event.sub == sub)) {
            continue;
        }
        conn->events.cells[(conn->events.first + kept++) % AMB_CONN_EVENTS_MAX] = *cell;
    }
    conn->events.count = kept;
    bool is_told =
        conn->events.is_running && !pthread_equal(conn->events.thread, pthread_self()) &&
        ((pub != NULL && conn->events.pub == pub) || (sub != NULL && conn->events.sub == sub));
    conn->events.is_awaited = conn->events.is_awaited || is_told;
    (void)pthread_mutex_unlock(&conn->events.lock);
    return !is_told;
}

/* The events' lock is held. */
static void begin(struct amb_conn_events *events, const struct amb_pub *pub,
                  const struct amb_sub *sub)
{
    events->is_running = true;
    events->thread = pthread_self();
    events->pub = pub;
    events->sub = sub;
}

bool amb_event_begin(struct amb_conn *conn, const struct amb_pub *pub)
{
    (void)pthread_mutex_lock(&conn->events.lock);
    bool may_run = !conn->events.is_running;
    if (may_run) {
        begin(&conn->events, pub, NULL);
    }
    (void)pthread_mutex_unlock(&conn->events.lock);
    return may_run;
}

bool amb_event_take(struct amb_conn *conn, struct amb_event_cell *out)
{
    bool has_one = false;
    (void)pthread_mutex_lock(&conn->events.lock);
    if (conn->events.count != 0 && !conn->events.is_running) {
        *out = conn->events.cells[conn->events.first];
        conn->events.first = (conn->events.first + 1) % AMB_CONN_EVENTS_MAX;
        conn->events.count--;
        begin(&conn->events, out->event.pub, out->event.sub);
        has_one = true;
    }
    (void)pthread_mutex_unlock(&conn->events.lock);
    return has_one;
}

bool amb_event_is_due(struct amb_conn *conn, bool has_room)
{
    if (conn->events.on_event == NULL) {
        return false;
    }
    (void)pthread_mutex_lock(&conn->events.lock);
    bool is_due = !conn->events.is_running && (has_room || conn->events.count != 0);
    (void)pthread_mutex_unlock(&conn->events.lock);
    return is_due;
}

void amb_event_end(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->events.lock);
    bool is_awaited = conn->events.is_awaited;
    conn->events.is_running = conn->events.is_awaited = false;
    (void)pthread_mutex_unlock(&conn->events.lock);
    if (is_awaited) {
        amb_conn_lock(conn);
        amb_conn_changed(conn);
        amb_conn_unlock(conn);
    }
}
