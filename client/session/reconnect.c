/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/reconnect.h"

#include "client/batch/away.h"
#include "client/batch/pub_settle.h"
#include "client/conn/conn.h"
#include "client/conn/thread.h"
#include "client/drive/back.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/ucx.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/memory/import.h"
#include "client/memory/slots_life.h"
#include "client/memory/view.h"
#include "client/message/returns.h"
#include "client/publish/pub_open.h"
#include "client/session/backoff.h"
#include "client/session/connect.h"
#include "client/session/life.h"
#include "client/session/lost.h"
#include "client/subscribe/resume.h"
#include "wire/base/assert.h"
#include "wire/tls/tls.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

/* A reason that another attempt would not change. */
static bool is_final(enum amb_status why)
{
    return why == AMB_EAUTH || why == AMB_EVERSION || why == AMB_EFORBIDDEN || why == AMB_EPROTO ||
           why == AMB_EKICKED || why == AMB_EINVAL || why == AMB_ENOTSUP || why == AMB_EFORKED;
}

/* Would a loss for `why` be followed by an attempt? */
static bool may_reconnect(const struct amb_conn *conn, enum amb_status why)
{
    return conn->again.is_on && !is_final(why) && !conn->io.is_lingering &&
           !amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING | AMB_TROUBLE_FORKED);
}

/* ---- the old session ---- */

/* Nothing of the session that was stays but what the program holds. */
static void clear(struct amb_conn *conn)
{
    amb_arrival_take_back(conn);
    amb_client_ucx_end(conn, AMB_CLIENT_UCX_END_NS);
    amb_tls_destroy(&conn->control.tls);
    amb_conn_close_fd(&conn->control.fd);
    amb_conn_close_fd(&conn->control.passed_fd);
    amb_conn_close_fd(&conn->link_state.epoll_fd);
    conn->control.out_len = 0;
    amb_control_reader_fini(&conn->control.reader);
    amb_control_reader_init(&conn->control.reader);
    amb_views_orphan(conn);
    amb_leases_drop_all(conn);
    amb_imports_over(conn);
    conn->leases.refused_ns = 0;
    amb_conn_gpus_renew(conn);
    memset(conn->handles.numbers, 0, sizeof(conn->handles.numbers));
    conn->link_state.is_down = conn->link_state.is_closed = false;
    conn->link_state.must_flush = conn->link_state.may_flush = conn->link_state.is_armed = false;
    conn->again.former_epoch = conn->session.epoch;
    conn->session.life++;
}

/* ---- the new one ---- */

static void watch(const struct amb_conn *conn, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (conn->settings.is_poll_mode && fd >= 0) {
        (void)epoll_ctl(conn->notify.user_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

/* Written only where it differs: other threads read these without the lock. */
#define TAKE(field)                                                                                \
    do {                                                                                           \
        if (conn->field != fresh->field) {                                                         \
            conn->field = fresh->field;                                                            \
        }                                                                                          \
    } while (0)

/* The session of `fresh`, which is nobody's yet, becomes conn's. */
static void graft(struct amb_conn *conn, struct amb_conn *fresh)
{
    TAKE(session.max_message);
    TAKE(session.batch_bytes);
    TAKE(session.batch_msgs);
    TAKE(link_state.has_costly_poll);
    TAKE(link_state.path);
    TAKE(leases.bytes_max);
    conn->session.id = fresh->session.id;
    conn->session.generation = fresh->session.generation;
    conn->session.secret = fresh->session.secret;
    conn->session.epoch = fresh->session.epoch;
    conn->control.heartbeat_ns = fresh->control.heartbeat_ns;
    conn->control.peer_timeout_ns = fresh->control.peer_timeout_ns;
    conn->control.heard_ns = conn->control.ping_ns = amb_clock_monotonic_ns();
    conn->ucx = fresh->ucx;
    fresh->ucx = (struct amb_conn_ucx){.context = NULL};
    conn->link = fresh->link;
    conn->link->arg = conn;
    conn->link_state.epoll_fd = fresh->link_state.epoll_fd;
    conn->control.fd = fresh->control.fd;
    conn->control.tls = fresh->control.tls;
    fresh->control.tls = NULL;
    fresh->link = NULL;
    fresh->link_state.epoll_fd = fresh->control.fd = -1;
    watch(conn, conn->control.fd);
    watch(conn, conn->link_state.epoll_fd);
    conn->link_state.is_closing = false;
    conn->session.down = AMB_OK;
}

static void resume(struct amb_conn *conn)
{
    bool is_same = conn->session.epoch == conn->again.former_epoch;
    conn->again.missing = 1; /* us, until all are asked for */
    for (uint32_t i = 0; i < conn->handles.pub_high; i++) {
        if (conn->handles.pubs[i] != NULL) {
            amb_pub_resume(conn->handles.pubs[i]);
        }
    }
    for (uint32_t i = 0; i < conn->handles.sub_high; i++) {
        if (conn->handles.subs[i] != NULL) {
            amb_sub_resume(conn->handles.subs[i], is_same);
        }
    }
    amb_back_one(conn);
    amb_conn_wake_all(conn);
    if (conn->io.has_thread) {
        amb_io_kick(conn);
    }
}

/* ---- the thread ---- */

static void discard(struct amb_conn *fresh)
{
    amb_conn_lock(fresh);
    amb_conn_teardown(fresh);
    amb_conn_unlock(fresh);
    amb_conn_unref(fresh);
}

/* Waits before an attempt; the lock is given up. False: it shall stop. */
static bool wait_a_while(struct amb_conn *conn, struct amb_backoff *backoff)
{
    uint64_t chance = (uint64_t)amb_clock_monotonic_ns();
    (void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
    int64_t wait_ns = amb_backoff_next(backoff, chance);
    struct timespec ts = {.tv_sec = wait_ns / AMB_NS_PER_SEC, .tv_nsec = wait_ns % AMB_NS_PER_SEC};
    struct pollfd fd = {.fd = conn->again.cancel_fd, .events = POLLIN};
    amb_conn_unlock(conn);
    (void)ppoll(&fd, 1, &ts, NULL);
    amb_conn_lock(conn);
    return !atomic_load_explicit(&conn->again.must_stop, memory_order_relaxed);
}

/* One attempt; the lock is given up. AMB_OK: there is a session. */
static enum amb_status attempt(struct amb_conn *conn, struct amb_error *error)
{
    struct amb_reconnect *again = &conn->again;
    struct amb_former former = {
        .session = conn->session.id,
        .generation = conn->session.generation,
        .secret = conn->session.secret,
        .epoch = again->former_epoch,
        .is_unmapped = amb_views_are_gone(conn) && amb_leases_are_gone(conn),
    };
    amb_conn_unlock(conn);
    struct amb_conn *fresh = NULL;
    int64_t deadline = amb_deadline_ns(amb_clock_monotonic_ns(), again->options.connect_timeout_ns);
    enum amb_status status = amb_connect_session(again->config, &again->options, &former, deadline,
                                                 again->cancel_fd, error, &fresh);
    amb_conn_lock(conn);
    if (status == AMB_OK && atomic_load_explicit(&again->must_stop, memory_order_relaxed)) {
        discard(fresh);
        return AMB_ECLOSED;
    }
    if (status == AMB_OK) {
        graft(conn, fresh);
        amb_conn_unref(fresh);
    }
    return status;
}

/* True: there is a session, and its loss has perhaps begun another thread. */
static bool try_again(struct amb_conn *conn)
{
    struct amb_reconnect *again = &conn->again;
    struct amb_backoff backoff;
    amb_backoff_init(&backoff, again->options.reconnect_min_ns, again->options.reconnect_max_ns);
    while (wait_a_while(conn, &backoff)) {
        struct amb_error error = {.status = AMB_OK};
        enum amb_status status = attempt(conn, &error);
        if (status == AMB_OK) {
            again->is_running = false; /* The next loss may come while we are still here. */
            resume(conn);
            return true;
        }
        if (atomic_load_explicit(&again->must_stop, memory_order_relaxed)) {
            return false;
        }
        again->tried++;
        if (is_final(status) || (again->options.reconnect_attempts != 0 &&
                                 again->tried >= again->options.reconnect_attempts)) {
            amb_conn_give_up(conn, is_final(status) ? status : AMB_ELOST, error.text);
            return false;
        }
        amb_event_session(conn, AMB_EVENT_LOST, status, error.text);
    }
    return false;
}

static void *thread_main(void *arg)
{
    struct amb_conn *conn = arg;
    (void)pthread_setname_np(pthread_self(), "amb-reconnect");
    amb_conn_lock(conn);
    clear(conn);
    if (!try_again(conn)) {
        conn->again.is_running = false;
    }
    amb_conn_changed(conn);
    amb_conn_wake_all(conn);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    return NULL;
}

/* False: no thread; down for good. */
static bool begin(struct amb_conn *conn)
{
    amb_assert(!conn->again.is_running);
    amb_conn_ref(conn);
    if (!amb_thread_begin_detached(thread_main, conn)) {
        conn->unrefs++;
        return false;
    }
    conn->again.is_running = true;
    return true;
}

/* ---- a loss ---- */

/* Keeps messages that were not sent, and those that the program holds. False: there is no thread to
 * go on. */
static bool go_away(struct amb_conn *conn)
{
    atomic_fetch_or_explicit(&conn->trouble, AMB_TROUBLE_AWAY, memory_order_release);
    for (uint32_t i = 0; i < conn->handles.pub_high; i++) {
        if (conn->handles.pubs[i] != NULL) {
            amb_pub_lose(conn->handles.pubs[i]);
        }
    }
    return begin(conn);
}

void amb_session_lost(struct amb_conn *conn, enum amb_status why, const char *text)
{
    if (conn->session.down != AMB_OK) {
        return;
    }
    if (why == AMB_OK || why == AMB_EAGAIN) {
        why = AMB_ELOST;
    }
    bool is_own_end = amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING);
    bool comes_back = may_reconnect(conn, why);
    amb_session_down(conn, why, text);
    comes_back = comes_back && go_away(conn);
    if (!comes_back) {
        amb_session_end(conn, why);
    }
    if (!is_own_end) {
        amb_session_event(conn,
                          comes_back || why == AMB_ELOST || why == AMB_EPROTO || why == AMB_ENOMEM);
    }
    amb_session_wake(conn);
}

void amb_reconnect_stop(struct amb_conn *conn)
{
    struct amb_reconnect *again = &conn->again;
    if (!again->is_on) {
        return;
    }
    atomic_store_explicit(&again->must_stop, true, memory_order_relaxed);
    uint64_t one = 1;
    (void)!write(again->cancel_fd, &one, sizeof(one));
    while (again->is_running) {
        amb_conn_unlock(conn);
        const struct timespec moment = {.tv_nsec = 100000};
        (void)nanosleep(&moment, NULL);
        amb_conn_lock(conn);
    }
}
