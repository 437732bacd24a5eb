/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/lock.h"

#include "client/conn/conn.h"
#include "client/drive/wake.h"
#include "wire/base/assert.h"

void amb_conn_lock(struct amb_conn *conn)
{
    if (pthread_mutex_trylock(&conn->lock) == 0) {
        return;
    }
    /* Relaxed: a driver that looks a moment too early looks again within LET_GO_NS. */
    atomic_fetch_add_explicit(&conn->lock_waits, 1, memory_order_relaxed);
    (void)pthread_mutex_lock(&conn->lock);
    atomic_fetch_sub_explicit(&conn->lock_waits, 1, memory_order_relaxed);
}

bool amb_conn_trylock(struct amb_conn *conn)
{
    return pthread_mutex_trylock(&conn->lock) == 0;
}

static void unlock_once(struct amb_conn *conn)
{
    if (conn->driver.has_changed) {
        amb_conn_wake_waiters(conn);
    }
    uint32_t unrefs = conn->unrefs;
    conn->unrefs = 0;
    (void)pthread_mutex_unlock(&conn->lock);
    if (unrefs != 0) {
        /* Never the last: the caller holds one of its own. */
        uint32_t before = atomic_fetch_sub_explicit(&conn->refs, unrefs, memory_order_acq_rel);
        amb_assert(before > unrefs);
    }
}

void amb_conn_push(struct amb_conn *conn, bool may_wait)
{
    if (!conn->link_state.must_flush || conn->link == NULL || conn->link_state.is_closing) {
        return;
    }
    bool is_attended = !conn->driver.is_asleep &&
                       (conn->driver.is_taken ||
                        atomic_load_explicit(&conn->io.mode, memory_order_relaxed) == AMB_IO_TICK);
    if (!is_attended || (!conn->link_state.has_costly_poll && !may_wait)) {
        amb_conn_flush_link(conn);
    }
}

void amb_conn_unlock(struct amb_conn *conn)
{
    unlock_once(conn);
    while (__builtin_expect(!amb_mpsc_is_empty(&conn->returned), 0) && amb_conn_trylock(conn)) {
        amb_upcalls.take_back(conn);
        amb_conn_push(conn, false);
        unlock_once(conn);
    }
}

void amb_conn_ref(struct amb_conn *conn)
{
    atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
}

void amb_conn_unref(struct amb_conn *conn)
{
    /* Acquire: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&conn->refs, 1, memory_order_acq_rel) == 1) {
        amb_upcalls.end(conn);
    }
}
