/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/io.h"

#include "client/batch/flush.h"
#include "client/conn/conn.h"
#include "client/conn/thread.h"
#include "client/drive/control.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/ucx.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/session/dispatch.h"
#include "client/session/life.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TICK_MIN_NS (50 * AMB_NS_PER_US)
#define TICK_LINGER_MAX_NS (500 * AMB_NS_PER_US)
#define TICK_ACTIVE_MIN_NS AMB_NS_PER_MS
#define TICK_ACTIVE_MAX_NS (4 * AMB_NS_PER_MS)

/* State of the I/O thread between turns. */
struct io_turn {
    uint64_t activity, driver_turns;
    int64_t tick_ns;   /* of a lingering batch */
    int64_t active_ns; /* of callers that come and go */
    bool may_flush;    /* frames saved up at the last turn are sent at this one */
    bool must_go;      /* the connection is over */
};

/* The nap after one of nap_ns (0: the first). */
static int64_t longer(int64_t nap_ns, int64_t min_ns, int64_t max_ns)
{
    return nap_ns < max_ns ? nap_ns + min_ns : nap_ns;
}

/* How long to nap for batches that linger: short while they need us, longer while their publisher
 * sends them itself. */
static int64_t linger_tick(struct io_turn *turn, unsigned work)
{
    turn->tick_ns = longer(work != 0 ? 0 : turn->tick_ns, TICK_MIN_NS, TICK_LINGER_MAX_NS);
    return turn->tick_ns;
}

/* How long to nap while callers move the link: the longer they have done so, the longer. A nap
 * costs a wake-up, and of a broker's many subscribers on one host each has a thread like this. */
static int64_t active_tick(struct io_turn *turn)
{
    turn->active_ns = longer(turn->active_ns, TICK_ACTIVE_MIN_NS, TICK_ACTIVE_MAX_NS);
    return turn->active_ns;
}

/* Chooses how to sleep, and for how long at most. Lock held. */
static enum amb_io_mode choose(struct amb_conn *conn, struct io_turn *turn, unsigned work,
                               int64_t now_ns, int64_t *timeout_ns)
{
    *timeout_ns = conn->control.ping_ns + conn->control.heartbeat_ns - now_ns;
    if (conn->notify.reply_ns - now_ns < *timeout_ns) {
        *timeout_ns = conn->notify.reply_ns - now_ns;
    }
    if (conn->session.down != AMB_OK) {
        *timeout_ns = AMB_NS_PER_SEC;
        return conn->ucx.worker != NULL && conn->link != NULL ? AMB_IO_TICK : AMB_IO_DEEP;
    }
    bool is_active = conn->driver.activity != turn->activity;
    bool same_driver = conn->driver.is_taken && conn->driver.turns == turn->driver_turns;
    turn->activity = conn->driver.activity;
    turn->driver_turns = conn->driver.turns;
    if (atomic_load_explicit(&conn->gathering, memory_order_relaxed) != 0) {
        *timeout_ns = linger_tick(turn, work);
        return AMB_IO_TICK;
    }
    turn->tick_ns = 0;
    if (same_driver && !conn->link_state.may_flush) {
        return AMB_IO_DEEP;
    }
    if (is_active || conn->driver.is_taken || conn->link_state.may_flush) {
        *timeout_ns = active_tick(turn);
        if (conn->driver.is_taken ||
            !atomic_load_explicit(&conn->notify.is_fd_used, memory_order_relaxed)) {
            return AMB_IO_TICK;
        }
        /* The program sleeps on amb_fd, and hears of the link by this thread alone. */
    } else {
        turn->active_ns = 0;
    }
    bool want_flow = conn->notify.settled_wanted != 0 || conn->driver.flow_waits != 0;
    if (!amb_conn_arm(conn, want_flow)) {
        *timeout_ns = 0;
        return AMB_IO_AWAKE;
    }
    return AMB_IO_WATCH;
}

static void nap(struct amb_conn *conn, enum amb_io_mode mode, int64_t timeout_ns)
{
    struct pollfd fds[3] = {
        {.fd = conn->io.wake_fd, .events = POLLIN},
        {.fd = conn->session.down == AMB_OK ? conn->control.fd : -1,
         .events = (short)(POLLIN | (amb_control_has_out(conn) ? POLLOUT : 0))},
        {.fd = mode == AMB_IO_WATCH ? conn->link_state.epoll_fd : -1, .events = POLLIN},
    };
    /* seq_cst: a publisher that begins a batch after our look at `gathering` sees this mode and
     * kicks. The look below sees one that began before. */
    atomic_store_explicit(&conn->io.mode, mode, memory_order_seq_cst);
    if (mode != AMB_IO_TICK && atomic_load_explicit(&conn->gathering, memory_order_seq_cst) != 0 &&
        conn->session.down == AMB_OK) {
        timeout_ns = 0;
    }
    if (!amb_mpsc_is_empty(&conn->returned) || amb_control_has_in(conn)) {
        timeout_ns = 0;
    }
    if (mode == AMB_IO_WATCH) {
        int64_t max_ns = amb_client_ucx_sleep_max_ns(conn);
        timeout_ns = timeout_ns < max_ns ? timeout_ns : max_ns;
    }
    timeout_ns = timeout_ns < 0 ? 0 : timeout_ns;
    struct timespec ts = {.tv_sec = timeout_ns / AMB_NS_PER_SEC,
                          .tv_nsec = timeout_ns % AMB_NS_PER_SEC};
    amb_conn_unlock(conn);
    int ready = ppoll(fds, 3, &ts, NULL);
    if (ready > 0 && fds[0].revents != 0) {
        uint64_t count;
        (void)!read(fds[0].fd, &count, sizeof(count));
    }
    amb_conn_lock(conn);
    atomic_store_explicit(&conn->io.mode, AMB_IO_AWAKE, memory_order_relaxed);
    if (mode == AMB_IO_WATCH && !conn->driver.is_taken) {
        amb_conn_disarm(conn);
    }
    if ((ready > 0 && fds[1].revents != 0) || amb_control_has_in(conn)) {
        amb_control_service(conn);
        /* SEG_READY, for one: a driver that sleeps would not send it. */
        amb_conn_push(conn, false);
        /* We may have read what a driver, or one of its followers, went to sleep for. */
        if (conn->driver.is_asleep && conn->driver.has_changed) {
            amb_conn_wake_driver(conn);
        }
    }
    /* The link's events come once: one that a driver may be about to sleep for is left to it. */
    if (ready > 0 && fds[2].revents != 0 && !conn->driver.is_taken) {
        amb_conn_harvest(conn);
    }
}

/* Releases that callers saved up leave when they are two turns old, with a call of ours. */
static void push_saved(struct amb_conn *conn, struct io_turn *turn, int64_t now_ns)
{
    if (turn->may_flush && conn->link_state.may_flush && conn->link != NULL &&
        conn->session.down == AMB_OK) {
        conn->link_state.may_flush = false;
        amb_rhythm_left(&conn->link_state.flow, now_ns);
        amb_conn_flush_link(conn);
    }
    turn->may_flush = conn->link_state.may_flush;
}

static void turn_once(struct amb_conn *conn, struct io_turn *turn)
{
    (void)amb_conn_spin(conn);
    int64_t now = amb_clock_monotonic_ns();
    amb_conn_timers(conn, now);
    unsigned work = 0;
    if (!conn->driver.is_taken && conn->driver.activity == turn->activity) {
        work = amb_conn_progress(conn);
    } else if (atomic_load_explicit(&conn->gathering, memory_order_relaxed) != 0) {
        /* Callers move the link, but the caller of a batch that lingers may not be back in time.
         * And a sleeper is not woken by the window that it waits for. */
        if (conn->driver.is_asleep) {
            (void)amb_conn_receive(conn);
        }
        work = amb_pub_flush_lingering(conn, now);
        amb_conn_push(conn, true);
    }
    push_saved(conn, turn, now);
    bool lingers_on = conn->io.is_lingering && conn->session.down == AMB_OK &&
                      atomic_load_explicit(&conn->mapped_held, memory_order_acquire) != 0;
    turn->must_go = conn->io.must_stop || (conn->io.is_lingering && !lingers_on);
    if (turn->must_go) {
        return;
    }
    int64_t timeout_ns = 0;
    enum amb_io_mode mode = AMB_IO_AWAKE;
    if (work == 0 || conn->driver.is_taken) { /* Else more may have come meanwhile. */
        mode = choose(conn, turn, work, now, &timeout_ns);
    }
    if (atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) != 0 &&
        timeout_ns > AMB_GPU_LOOK_NS) {
        timeout_ns = AMB_GPU_LOOK_NS;
    }
    if (mode != AMB_IO_AWAKE) {
        nap(conn, mode, timeout_ns);
    } else {
        amb_conn_unlock(conn);
        (void)sched_yield();
        amb_conn_lock(conn);
    }
}

static void *io_main(void *arg)
{
    struct amb_conn *conn = arg;
    struct io_turn turn = {0};
    (void)pthread_setname_np(pthread_self(), "amb-io");
    amb_gpus_own_thread();
    /* The default slack of 50 us would double every nap. */
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    amb_conn_lock(conn);
    while (!turn.must_go) {
        turn_once(conn, &turn);
    }
    if (conn->io.is_lingering) {
        amb_conn_teardown(conn);
    }
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    return NULL;
}

enum amb_status amb_io_start(struct amb_conn *conn)
{
    amb_conn_ref(conn);
    int error = amb_thread_begin(&conn->io.thread, io_main, conn);
    if (error != 0) {
        amb_conn_unref(conn);
        return amb_status_from_errno(error);
    }
    conn->io.has_thread = true;
    return AMB_OK;
}
