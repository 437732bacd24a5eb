/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/wake.h"

#include "client/conn/conn.h"
#include "client/conn/wait.h"
#include "client/drive/upcalls.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex_wake_all(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void amb_conn_changed(struct amb_conn *conn)
{
    conn->driver.has_changed = true;
}

void amb_conn_wake_all(struct amb_conn *conn)
{
    atomic_fetch_add_explicit(&conn->driver.change, 1, memory_order_release);
    futex_wake_all(&conn->driver.change);
    uint64_t one = 1;
    if (conn->driver.wake_fd >= 0) {
        (void)!write(conn->driver.wake_fd, &one, sizeof(one));
    }
}

void amb_conn_wake_driver(struct amb_conn *conn)
{
    uint64_t one = 1;
    conn->driver.is_woken = true;
    (void)!write(conn->driver.wake_fd, &one, sizeof(one));
}

void amb_io_kick(struct amb_conn *conn)
{
    uint64_t one = 1;
    if (conn->io.wake_fd >= 0) {
        (void)!write(conn->io.wake_fd, &one, sizeof(one));
    }
}

enum amb_status amb_conn_verdict(struct amb_conn *conn, const struct amb_wait *wait)
{
    uint32_t trouble = atomic_load_explicit(&conn->trouble, memory_order_acquire);
    if ((trouble & AMB_TROUBLE_STOPPED) != 0 && (wait->flags & AMB_WAIT_STOPPABLE) != 0) {
        return AMB_ESTOPPED;
    }
    if (wait->is_ready(wait->arg)) {
        return AMB_OK;
    }
    if ((trouble & AMB_TROUBLE_DOWN) != 0 && (wait->flags & AMB_WAIT_LOST) == 0) {
        return conn->session.down;
    }
    if (wait->is_over != NULL && atomic_load_explicit(wait->is_over, memory_order_relaxed)) {
        return AMB_ECLOSED;
    }
    if ((trouble & AMB_TROUBLE_CLOSING) != 0 && (wait->flags & AMB_WAIT_CLOSER) == 0) {
        return AMB_ECLOSED;
    }
    return AMB_EAGAIN;
}

void amb_conn_wake_waiters(struct amb_conn *conn)
{
    if (!conn->driver.has_changed) {
        return;
    }
    if (__builtin_expect(!amb_list_is_empty(&conn->notify.rooms_awaited), 0)) {
        amb_upcalls.look_for_room(conn);
    }
    conn->driver.has_changed = false;
    if (conn->driver.followers != 0) {
        atomic_fetch_add_explicit(&conn->driver.change, 1, memory_order_release);
        futex_wake_all(&conn->driver.change);
    }
    /* One that sleeps on the link hears of nothing that another thread has found there, or done. */
    if (conn->driver.is_asleep && !conn->driver.is_woken &&
        amb_conn_verdict(conn, conn->driver.wait) != AMB_EAGAIN) {
        amb_conn_wake_driver(conn);
    }
}
