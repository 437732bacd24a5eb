/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's loop, and its turns.
 */
#include "client/drive/drive.h"

#include "client/conn/conn.h"
#include "client/drive/control.h"
#include "client/drive/lock.h"
#include "client/drive/ucx.h"
#include "client/drive/wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Between two looks at a stream of large batches, each a system call: so long, then twice. */
#define PAUSE_MIN_NS (8 * AMB_NS_PER_US)
#define PAUSE_MAX_NS (32 * AMB_NS_PER_US)
#define AWAIT_OUT_NS (50 * AMB_NS_PER_US)
#define HEARTBEAT_LATE 4        /* late is later than due by that part of its time */
#define LET_GO_NS AMB_NS_PER_MS /* a driver with work keeps the lock for so long at most */

/* Whether a signal has ended it. */
static bool futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    struct timespec ts = {.tv_sec = timeout_ns / AMB_NS_PER_SEC,
                          .tv_nsec = timeout_ns % AMB_NS_PER_SEC};
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0) < 0 && errno == EINTR;
}

static void take_back(struct amb_conn *conn)
{
    if (!amb_mpsc_is_empty(&conn->returned)) {
        amb_upcalls.take_back(conn);
    }
}

/* The link is down, and the session goes with it at the next poll. */
static bool is_down_unseen(const struct amb_conn *conn)
{
    return conn->link_state.is_down && conn->session.down == AMB_OK;
}

static unsigned poll_link(struct amb_conn *conn)
{
    unsigned done = amb_client_ucx_progress(conn);
    if (conn->link != NULL) {
        done += amb_link_poll(conn->link,
                              conn->link->queued == 0 ? AMB_POLL_BUDGET : AMB_POLL_BUDGET_BUSY);
    }
    if (is_down_unseen(conn)) {
        amb_upcalls.hear_out(conn);
        amb_conn_lost(conn, conn->session.link_status,
                      conn->session.link_text); /* unless that was why */
        done++;
    }
    return done;
}

/* A look has taken bytes from a socket that are more frames than it has read. No byte there tells
 * of the rest, so a driver that sleeps on it looks again. An epoll has an edge of them yet. */
static void hand_over(struct amb_conn *conn, unsigned done)
{
    if (done >= AMB_POLL_BUDGET && conn->driver.is_asleep && conn->link_state.is_at_rest &&
        !conn->driver.is_woken && conn->link != NULL && !conn->link->is_dry) {
        amb_conn_wake_driver(conn);
    }
}

unsigned amb_conn_receive(struct amb_conn *conn)
{
    take_back(conn);
    unsigned done = poll_link(conn);
    if (done != 0) {
        amb_conn_wake_waiters(conn);
        hand_over(conn, done);
    }
    return done;
}

/* The part of frames that leave. */
static unsigned progress_out(struct amb_conn *conn)
{
    unsigned done = 0;
    if (atomic_load_explicit(&conn->gathering, memory_order_relaxed) != 0) {
        done += amb_upcalls.flush_due(conn);
    }
    if (conn->link_state.must_flush && conn->link != NULL) {
        amb_conn_flush_link(conn);
    }
    return done;
}

unsigned amb_conn_progress(struct amb_conn *conn)
{
    take_back(conn);
    unsigned done = poll_link(conn);
    hand_over(conn, done);
    done += progress_out(conn);
    if (done != 0) {
        amb_conn_wake_waiters(conn);
    }
    return done;
}

/* The rest of it, where nothing is expected to have come. */
static unsigned progress_unseen(struct amb_conn *conn)
{
    take_back(conn);
    unsigned done = progress_out(conn);
    if (done != 0) {
        amb_conn_wake_waiters(conn);
    }
    return done;
}

/* ---- waiting ---- */

/* Whether a signal has ended it. */
static bool follow(struct amb_conn *conn, const struct amb_wait *wait, int64_t remaining_ns)
{
    /* The driver must not sleep through what we wait for. */
    if ((wait->flags & AMB_WAIT_FLOW) != 0 && conn->driver.is_asleep && !conn->driver.wants_flow) {
        amb_conn_wake_driver(conn);
    }
    amb_conn_push(conn, false); /* The driver may be asleep. */
    conn->driver.followers++;
    uint32_t seen = atomic_load_explicit(&conn->driver.change, memory_order_acquire);
    amb_conn_unlock(conn);
    bool has_signal = futex_wait(&conn->driver.change, seen,
                                 remaining_ns < AMB_NS_PER_SEC ? remaining_ns : AMB_NS_PER_SEC);
    amb_conn_lock(conn);
    conn->driver.followers--;
    return has_signal;
}

/* Whether a signal has ended it. */
static bool sleep_on_all(struct amb_conn *conn, const struct pollfd *link, int64_t timeout_ns)
{
    /* Heartbeats are the I/O thread's; an answer that somebody waits for is not left to it. */
    bool has_control = !conn->io.has_thread || !amb_list_is_empty(&conn->control.requests);
    struct pollfd fds[3] = {
        {.fd = conn->driver.wake_fd, .events = POLLIN},
        {.fd = has_control ? conn->control.fd : -1,
         .events = (short)(POLLIN | (amb_control_has_out(conn) ? POLLOUT : 0))},
        *link,
    };
    struct timespec ts = {.tv_sec = timeout_ns / AMB_NS_PER_SEC,
                          .tv_nsec = timeout_ns % AMB_NS_PER_SEC};
    if (has_control && amb_control_has_in(conn)) {
        amb_upcalls.service(conn);
        return false;
    }
    amb_conn_unlock(conn);
    int ready = ppoll(fds, 3, &ts, NULL);
    bool has_signal = ready < 0 && errno == EINTR;
    if (ready > 0 && fds[0].revents != 0) {
        uint64_t count;
        (void)!read(fds[0].fd, &count, sizeof(count));
    }
    amb_conn_lock(conn);
    if (ready > 0 && fds[1].revents != 0 && fds[1].fd == conn->control.fd) {
        amb_upcalls.service(conn);
    }
    if (ready > 0 && fds[2].revents != 0 && fds[2].fd == conn->link_state.epoll_fd) {
        amb_conn_take_edge(conn);
    }
    return has_signal;
}

/* Sleeps until something may have happened, at most until deadline. Whether that is a signal. */
static bool driver_sleep(struct amb_conn *conn, const struct amb_wait *wait, int64_t now_ns,
                         int64_t deadline_ns)
{
    bool want_flow = (wait->flags & AMB_WAIT_FLOW) != 0 || conn->driver.flow_waits != 0 ||
                     conn->notify.settled_wanted != 0;
    if (conn->link_state.must_flush && conn->link != NULL) {
        amb_conn_flush_link(conn); /* Left to us, see amb_conn_push. */
    }
    struct pollfd link = {.fd = conn->link_state.epoll_fd, .events = POLLIN};
    if (is_down_unseen(conn)) { /* A flush found it: nothing will come. */
        return false;
    }
    if (amb_conn_can_rest(conn) ? !amb_conn_rest(conn, &link) : !amb_conn_arm(conn, want_flow)) {
        return false;
    }
    if (!amb_mpsc_is_empty(&conn->returned)) {
        amb_conn_disarm(conn);
        return false;
    }
    int64_t until = deadline_ns;
    if (!conn->io.has_thread) {
        int64_t timer = amb_conn_next_timer(conn, now_ns);
        until = timer < until ? timer : until;
    } else if (atomic_load_explicit(&conn->io.mode, memory_order_relaxed) == AMB_IO_WATCH) {
        amb_io_kick(conn); /* One sleeper on the link is enough. */
    }
    int64_t timeout = until - now_ns, ucx_max = amb_client_ucx_sleep_max_ns(conn);
    timeout = timeout < ucx_max ? timeout : ucx_max;
    if (timeout > 3600 * AMB_NS_PER_SEC) {
        timeout = 3600 * AMB_NS_PER_SEC;
    }
    conn->driver.is_asleep = true;
    conn->driver.wants_flow = want_flow;
    conn->driver.wait = wait;
    conn->driver.is_woken = false;
    bool has_signal = sleep_on_all(conn, &link, timeout > 0 ? timeout : 0);
    conn->driver.is_asleep = false;
    conn->driver.wait = NULL;
    amb_conn_disarm(conn);
    if (!conn->io.has_thread) {
        amb_upcalls.timers(conn, amb_clock_monotonic_ns());
    }
    amb_conn_wake_waiters(conn);
    return has_signal;
}

static int64_t next_pause(const struct amb_conn *conn, int64_t pause_ns)
{
    if (!conn->link_state.has_costly_poll || !conn->link_state.is_bulk) {
        return 0;
    }
    return amb_clock_next_pause(pause_ns, PAUSE_MIN_NS, PAUSE_MAX_NS);
}

/* A large body may keep a driver for seconds: the heartbeat is its, and others get the lock in
 * between. Where nobody wants it the core is kept: beside other work a yield costs a slice. */
static void let_go(struct amb_conn *conn, int64_t now_ns)
{
    amb_upcalls.timers(conn, now_ns);
    if (atomic_load_explicit(&conn->lock_waits, memory_order_relaxed) != 0) {
        amb_conn_unlock(conn);
        (void)sched_yield();
        amb_conn_lock(conn);
    }
}

static void drive_begin(struct amb_conn *conn)
{
    conn->driver.is_taken = true;
    conn->driver.turns++;
    conn->driver.activity++;
    amb_conn_disarm(conn);
}

/* There is no driver: the link is the I/O thread's again, or the program's own loop's. The I/O
 * thread does not look at the link, or waits for a ring that we have called off. */
static void leave_to_io(struct amb_conn *conn)
{
    enum amb_io_mode io_mode =
        (enum amb_io_mode)atomic_load_explicit(&conn->io.mode, memory_order_relaxed);
    if (io_mode == AMB_IO_DEEP || (io_mode == AMB_IO_WATCH && !conn->link_state.is_armed)) {
        amb_io_kick(conn);
    }
    amb_conn_arm_for_user(conn);
}

/* Somebody else drives from here on. While we had let go, others may have left us something to
 * send. */
static void drive_end(struct amb_conn *conn)
{
    if (conn->link_state.must_flush && conn->link != NULL && !conn->link_state.is_closing) {
        amb_conn_flush_link(conn);
    }
    conn->driver.is_taken = false;
    if (conn->driver.followers != 0) {
        conn->driver.has_changed = true;
        amb_conn_wake_waiters(conn);
        return;
    }
    leave_to_io(conn);
}

/* The heartbeat is the I/O thread's. On a busy machine that thread may not run for long, and the
 * session must not end for it while this one runs. */
static void beat_if_late(struct amb_conn *conn, int64_t now_ns)
{
    int64_t step_ns = conn->control.heartbeat_ns;
    if (step_ns > 0 && conn->session.down == AMB_OK &&
        now_ns - conn->control.ping_ns >= step_ns + step_ns / HEARTBEAT_LATE) {
        amb_upcalls.timers(conn, now_ns);
    }
}

/* The last look has emptied the socket, and this thread sleeps at once if nothing is there: then
 * the sleep is the look. */
static bool may_sleep_unseen(const struct amb_conn *conn)
{
    const struct amb_spin *spin = &conn->driver.spin;
    return (spin->crowd_ns != 0 || spin->budget_ns == 0) && amb_conn_can_rest(conn) &&
           conn->link->is_dry;
}

static bool is_asked(const struct amb_conn *conn, const struct amb_wait *wait)
{
    return (wait->flags & AMB_WAIT_ASKS) != 0 && conn->settings.interrupt.ask != NULL;
}

/* Drives until the wait has an answer or is over, and returns that. EAGAIN: the time has passed, or
 * *has_signal is set and the program is to be asked. */
static enum amb_status drive(struct amb_conn *conn, const struct amb_wait *wait,
                             int64_t deadline_ns, bool *has_signal)
{
    drive_begin(conn);
    int64_t now = 0, start_ns = 0, idle_ns = 0, let_go_ns = 0, pause_ns = 0;
    bool has_slept = false, has_yielded = false, is_unseen = may_sleep_unseen(conn);
    bool has_looked = !is_unseen;
    enum amb_status status;
    for (;;) {
        unsigned work = is_unseen ? progress_unseen(conn) : amb_conn_progress(conn);
        is_unseen = false;
        status = amb_conn_verdict(conn, wait);
        if (status != AMB_EAGAIN) {
            break;
        }
        /* A look that finds nothing takes no time to speak of. */
        now = has_yielded && work == 0 ? now : amb_clock_monotonic_ns();
        has_yielded = false;
        if (start_ns == 0) {
            start_ns = let_go_ns = now;
        }
        if (now >= deadline_ns) {
            if (has_looked) {
                break;
            }
            has_looked = true; /* A wait of no time is a look, at least. */
            continue;
        }
        if (now - let_go_ns > LET_GO_NS) {
            let_go_ns = now;
            let_go(conn, now);
            /* Threads that had the lock in between saw no sleeper, and woke none. */
            status = amb_conn_verdict(conn, wait);
            if (status != AMB_EAGAIN) {
                break;
            }
        }
        if (work != 0) {
            idle_ns = now;
            pause_ns = 0;
            has_slept = false;
            amb_spin_worked(&conn->driver.spin);
            continue;
        }
        idle_ns = idle_ns == 0 ? now : idle_ns;
        if (has_slept || (wait->flags & AMB_WAIT_CONTROL) != 0 ||
            !amb_spin_pays(&conn->driver.spin, now - idle_ns, now)) {
            if (!conn->io.has_thread && amb_upcalls.spin(conn)) {
                continue; /* Others had the lock. */
            }
            /* We may have waited for the lock. */
            *has_signal = driver_sleep(conn, wait, amb_clock_monotonic_ns(), deadline_ns) &&
                          is_asked(conn, wait);
            if (*has_signal) {
                break;
            }
            /* Woken for something, or for nothing: look, then sleep again. */
            idle_ns = now;
            has_slept = true;
        } else {
            pause_ns = next_pause(conn, pause_ns);
            amb_conn_unlock(conn);
            now = amb_spin_yield(&conn->driver.spin, pause_ns);
            amb_conn_lock(conn);
            has_yielded = true;
        }
    }
    if (start_ns != 0 && (wait->flags & AMB_WAIT_CONTROL) == 0) {
        now = has_slept ? amb_clock_monotonic_ns() : now;
        amb_spin_note(&conn->driver.spin, start_ns - conn->driver.waited_ns, now - start_ns);
        conn->driver.waited_ns = now;
    }
    if (start_ns != 0) {
        beat_if_late(conn, now);
    }
    drive_end(conn);
    return status;
}

/* One look without waiting. */
static enum amb_status look(struct amb_conn *conn, const struct amb_wait *wait)
{
    conn->driver.activity++;
    if (!conn->io.has_thread) {
        amb_upcalls.service(conn);
        amb_upcalls.timers(conn, amb_clock_monotonic_ns());
    }
    (void)amb_conn_progress(conn);
    return amb_conn_verdict(conn, wait);
}

/* Asks the program about a signal. Nobody drives for this thread meanwhile, and the lock is
 * free: the program may run anything. */
static enum amb_status ask(struct amb_conn *conn, const struct amb_wait *wait)
{
    amb_conn_unlock(conn);
    bool is_over = amb_is_interrupted(&conn->settings.interrupt);
    amb_conn_lock(conn);
    return is_over ? AMB_ECANCELED : amb_conn_verdict(conn, wait);
}

enum amb_status amb_conn_wait(struct amb_conn *conn, const struct amb_wait *wait)
{
    enum amb_status status = amb_conn_verdict(conn, wait);
    if (status != AMB_EAGAIN) {
        return status;
    }
    if (wait->timeout_ns <= 0) {
        return look(conn, wait);
    }
    conn->driver.flow_waits += (wait->flags & AMB_WAIT_FLOW) != 0;
    int64_t deadline = amb_wait_deadline(wait->timeout_ns);
    while (status == AMB_EAGAIN) {
        bool has_signal = false;
        if (!conn->driver.is_taken) {
            status = drive(conn, wait, deadline, &has_signal);
            if (status == AMB_EAGAIN) {
                status = has_signal ? ask(conn, wait) : AMB_ETIMEDOUT;
            }
            continue;
        }
        int64_t left = INT64_MAX;
        if (deadline != INT64_MAX) {
            left = deadline - amb_clock_monotonic_ns();
            if (left <= 0) {
                status = AMB_ETIMEDOUT;
                break;
            }
        }
        has_signal = follow(conn, wait, left) && is_asked(conn, wait);
        status = has_signal ? ask(conn, wait) : amb_conn_verdict(conn, wait);
        if (status != AMB_EAGAIN && !conn->driver.is_taken && conn->driver.followers == 0) {
            leave_to_io(conn); /* The driver has left it to us, who do not need it. */
        }
    }
    conn->driver.flow_waits -= (wait->flags & AMB_WAIT_FLOW) != 0;
    return status;
}

enum amb_status amb_conn_wait_asking(struct amb_conn *conn, const struct amb_wait *wait)
{
    const struct amb_interrupt *interrupt = &conn->settings.interrupt;
    int64_t deadline = amb_wait_deadline(wait->timeout_ns);
    struct amb_wait slice = *wait;
    slice.flags |= AMB_WAIT_ASKS;
    for (;;) {
        slice.timeout_ns = amb_interrupt_slice(interrupt, slice.timeout_ns);
        enum amb_status status = amb_conn_wait(conn, &slice);
        if (status != AMB_ETIMEDOUT || interrupt->ask == NULL) {
            return status;
        }
        amb_conn_unlock(conn);
        bool is_over = amb_is_interrupted(interrupt);
        amb_conn_lock(conn);
        if (is_over && !wait->is_ready(wait->arg)) {
            return AMB_ECANCELED;
        }
        slice.timeout_ns =
            deadline == INT64_MAX ? AMB_FOREVER : deadline - amb_clock_monotonic_ns();
        if (slice.timeout_ns <= 0) {
            return wait->is_ready(wait->arg) ? AMB_OK : AMB_ETIMEDOUT;
        }
    }
}

void amb_conn_await_out(struct amb_conn *conn, const _Atomic uint32_t *inside)
{
    /* Acquire: pairs with the release of a call that leaves. */
    while (atomic_load_explicit(inside, memory_order_acquire) != 0) {
        amb_conn_wake_all(conn);
        amb_conn_unlock(conn);
        const struct timespec moment = {.tv_nsec = AWAIT_OUT_NS};
        (void)nanosleep(&moment, NULL);
        amb_conn_lock(conn);
    }
}
