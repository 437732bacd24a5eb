/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/small.h"

#include "client/batch/away.h"
#include "client/batch/batches.h"
#include "client/batch/flush.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "wire/base/clock.h"

/* How often a link whose poll is a system call is asked whether a batch has arrived. */
#define BUSY_POLL_NS (20 * AMB_NS_PER_US)
/* A look takes what is there, up to so many full turns of it. */
#define RECEIVE_TURNS_MAX 16u

/* Looks whether the broker has taken the last batch, unless somebody else does that already. */
static bool still_in_flight(struct amb_pub *pub, int64_t now_ns)
{
    struct amb_conn *conn = pub->conn;
    if (!amb_pub_in_flight(pub)) {
        return false;
    }
    if (conn->link_state.has_costly_poll) {
        if ((pub->rule.is_flowing && !pub->has_settled_frames) ||
            now_ns - pub->last_poll_ns < BUSY_POLL_NS) {
            return true;
        }
        pub->last_poll_ns = now_ns;
    }
    if (amb_conn_trylock(conn)) {
        conn->driver.activity++;
        /* A thread that publishes and never has to wait reads frames here alone: receipts of all
         * its publishers, and slots that came back. */
        for (unsigned i = 0; i < RECEIVE_TURNS_MAX && amb_conn_receive(conn) >= AMB_POLL_BUDGET;
             i++) {
        }
        amb_conn_unlock(conn);
    }
    return amb_pub_in_flight(pub);
}

/* The batch waits for company: somebody must send it if nobody calls again. */
static void leave_to_linger(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    /* seq_cst: pairs with the store in nap() of io.c. */
    uint32_t mode = atomic_load_explicit(&conn->io.mode, memory_order_seq_cst);
    if (mode == AMB_IO_WATCH || mode == AMB_IO_DEEP) {
        amb_io_kick(conn);
    } else if (mode == AMB_IO_NONE) {
        amb_notify_timer(conn, pub->rule.linger_ns);
    }
}

void amb_put_look(struct amb_pub *pub, const struct amb_batch *batch, bool is_full)
{
    struct amb_conn *conn = pub->conn;
    bool is_first = batch->count == 1;
    int64_t now = amb_clock_monotonic_ns();
    if (is_first && !atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        amb_batch_rule_open(&pub->rule, now);
        atomic_store_explicit(&pub->is_gathering, true, memory_order_relaxed);
        /* seq_cst: pairs with the load in nap() of io.c. */
        atomic_fetch_add_explicit(&conn->gathering, 1, memory_order_seq_cst);
    }
    if (is_full || amb_batch_rule_ask(&pub->rule, batch->count, amb_batch_size(batch),
                                      still_in_flight(pub, now), now)) {
        amb_conn_lock(conn);
        conn->driver.activity++;
        enum amb_status status = amb_pub_flush_open(pub);
        if (status == AMB_EAGAIN && conn->link_state.must_flush && conn->link != NULL) {
            amb_conn_flush_link(conn);
        }
        amb_conn_unlock(conn);
        if (status == AMB_OK) {
            return;
        }
    }
    if (is_first) {
        leave_to_linger(pub);
    }
}

/* Makes room in the open batch. EAGAIN, too: it must go alone now. Publisher's lock held. */
static enum amb_status make_room(struct amb_pub *pub, uint64_t len, uint32_t blob_len)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = AMB_OK;
    if (pub->open == NULL || !amb_list_is_empty(&pub->queue) ||
        !amb_batch_fits(pub->open, len, blob_len, pub->batch_msgs)) {
        amb_conn_lock(conn);
        if (pub->open != NULL || !amb_list_is_empty(&pub->queue)) {
            conn->driver.activity++;
            status = amb_pub_flush_open(pub);
            if (status == AMB_EAGAIN) {
                atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
                /* The look that everyone who must wait does first may find the window. */
                (void)amb_conn_progress(conn);
                status = amb_pub_flush_open(pub);
                if (status == AMB_EAGAIN && amb_pub_put_aside(pub)) {
                    status = AMB_OK;
                }
            }
        }
        if (status == AMB_OK &&
            (pub->open == NULL ||
             (pub->open->count == 0 && pub->open->data_cap != conn->session.batch_bytes))) {
            amb_pub_batch_put(conn, pub->open);
            pub->open = amb_pub_batch_get(conn);
            status = pub->open != NULL ? AMB_OK : AMB_ENOMEM;
        }
        if (status == AMB_OK && !amb_batch_fits(pub->open, len, blob_len, pub->batch_msgs)) {
            status = AMB_EAGAIN;
        }
        amb_conn_push(conn, true); /* The window that it wants. */
        amb_conn_unlock(conn);
    }
    if (status == AMB_OK && pub->open->count == 0) {
        uint64_t unsettled = atomic_load_explicit(&pub->posted, memory_order_relaxed) -
                             atomic_load_explicit(&pub->settled_seq, memory_order_acquire);
        status =
            unsettled >= pub->window.limit_msgs || amb_batches_are_full(conn) ? AMB_EAGAIN : status;
    }
    return status;
}

enum amb_status amb_put_small(struct amb_pub *pub, const struct amb_put *put, uint64_t *seq)
{
    amb_spinlock_lock(&pub->lock);
    enum amb_status status = make_room(pub, put->len, put->blob_len);
    if (status == AMB_OK) {
        struct amb_batch *batch = pub->open;
        if (put->iov == NULL) {
            amb_batch_add(batch, put->data, put->len);
        } else {
            amb_batch_add_pieces(batch, put->iov, put->iov_count, put->len);
        }
        amb_batch_say_mem(batch, put->mem);
        if (put->blob_len != 0 || put->key_hash != 0 || put->ttl_ms != 0) {
            status =
                amb_batch_add_props(batch, put->blob, put->blob_len, put->key_hash, put->ttl_ms);
            if (status != AMB_OK) {
                amb_batch_undo(batch);
            }
        }
    }
    if (status == AMB_OK) {
        uint64_t number = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
        atomic_store_explicit(&pub->posted, number, memory_order_release);
        if (seq != NULL) {
            *seq = number;
        }
        amb_put_added(pub, pub->open, pub->open->count == pub->batch_msgs);
    }
    amb_spinlock_unlock(&pub->lock);
    return status;
}
