/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/flush.h"

#include "client/batch/batches.h"
#include "client/batch/commit_queue.h"
#include "client/batch/pub.h"
#include "client/batch/pub_settle.h"
#include "client/batch/send.h"
#include "client/conn/conn.h"

/* Sends a copy of the open batch that is as large as it must be; the open one goes on. */
static enum amb_status send_packed(struct amb_pub *pub, struct amb_batch *packed, uint64_t last)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_batch_send(pub, packed, last);
    if (status == AMB_OK || status == AMB_EAGAIN) {
        amb_batch_reset(pub->open);
        if (status == AMB_OK && !pub->is_named) {
            amb_pub_batch_put(conn, packed);
        }
        return AMB_OK;
    }
    amb_pub_batch_put(conn, packed);
    return status;
}

/* The batch of small messages alone. */
static enum amb_status flush_small(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    struct amb_batch *batch = pub->open;
    if (batch == NULL || batch->count == 0) {
        return AMB_OK;
    }
    if (!amb_pub_has_window(pub, amb_batch_size(batch))) {
        return AMB_EAGAIN;
    }
    uint64_t last = atomic_load_explicit(&pub->posted, memory_order_relaxed);
    if (!amb_list_is_empty(&pub->queue)) {
        last = amb_commit_queue_first(pub)->first_seq - 1;
    }
    if (amb_batch_would_stay(pub)) {
        struct amb_batch *packed = amb_batch_pack(conn, batch);
        if (packed != NULL) {
            return send_packed(pub, packed, last);
        }
    }
    amb_batch_charge(conn, batch); /* Before: the link may have given it back when it answers. */
    enum amb_status status = amb_batch_send(pub, batch, last);
    if (status == AMB_EAGAIN || (status == AMB_OK && pub->is_named)) {
        pub->open = amb_pub_batch_get(conn);
        return AMB_OK;
    }
    amb_batch_discharge(conn, batch);
    if (status == AMB_OK) {
        amb_batch_reset(batch);
    }
    return status;
}

void amb_pub_drop_unsent(struct amb_pub *pub)
{
    amb_away_drop(pub);
    amb_commit_queue_drop(pub);
}

/* The broker does not want it back: waiting batches are settled so. Both locks held. */
static void drop_refused(struct amb_pub *pub)
{
    if (pub->open != NULL) {
        amb_batch_reset(pub->open);
    }
    amb_pub_drop_unsent(pub);
    pub->batch_msgs = pub->conn->session.batch_msgs;
    amb_pub_settle_all(pub, pub->away.refused);
    if (atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        atomic_store_explicit(&pub->is_gathering, false, memory_order_relaxed);
        atomic_store_explicit(&pub->must_leave, false, memory_order_relaxed);
        atomic_fetch_sub_explicit(&pub->conn->gathering, 1, memory_order_relaxed);
    }
}

/* Why nothing leaves. EAGAIN: there is or comes another session. */
static enum amb_status why_stuck(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN)) {
        return conn->session.down;
    }
    if (pub->away.refused != AMB_OK) {
        drop_refused(pub);
        return pub->away.refused;
    }
    return pub->away.is_on ? AMB_EAGAIN : AMB_ECLOSED;
}

static inline bool is_stuck(const struct amb_pub *pub)
{
    return pub->conn->session.down != AMB_OK || pub->conn->link == NULL || pub->away.is_on;
}

enum amb_status amb_pub_flush_open(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (__builtin_expect(pub->away.must_gather, 0)) {
        amb_away_gather(pub);
    }
    if (!atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        return AMB_OK;
    }
    if (__builtin_expect(is_stuck(pub), 0)) {
        return why_stuck(pub);
    }
    uint64_t bytes = pub->open != NULL ? amb_batch_size(pub->open) : 0;
    enum amb_status status = amb_away_flush(pub);
    if (status == AMB_OK) {
        status = flush_small(pub);
    }
    if (status == AMB_OK) {
        status = amb_commit_queue_flush(pub);
    }
    if (status != AMB_OK) {
        atomic_fetch_or_explicit(&pub->wary, AMB_WARY_HELD, memory_order_relaxed);
        return amb_batch_outcome(pub, status);
    }
    if ((atomic_load_explicit(&pub->wary, memory_order_relaxed) & AMB_WARY_HELD) != 0) {
        atomic_fetch_and_explicit(&pub->wary, ~AMB_WARY_HELD, memory_order_relaxed);
    }
    atomic_store_explicit(&pub->is_gathering, false, memory_order_relaxed);
    atomic_store_explicit(&pub->must_leave, false, memory_order_relaxed);
    atomic_fetch_sub_explicit(&conn->gathering, 1, memory_order_relaxed);
    amb_batch_rule_sent(&pub->rule, bytes);
    conn->link_state.is_bulk = pub->rule.is_flowing;
    return AMB_OK;
}

enum amb_status amb_pub_flush_large(struct amb_pub *pub, struct amb_batch *large)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_pub_flush_open(pub);
    if (status != AMB_OK) {
        return status;
    }
    if (__builtin_expect(is_stuck(pub), 0)) {
        return why_stuck(pub);
    }
    if (large->out.tx.is_device && !conn->link->takes_cuda) {
        return AMB_ENOTSUP; /* Another session, another link. */
    }
    if (!amb_pub_has_window(pub, amb_batch_size(large))) {
        return AMB_EAGAIN;
    }
    uint64_t seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
    struct amb_pub *lender = large->pub;
    pub->borrowed += lender != NULL;
    status = amb_batch_send(pub, large, seq);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        pub->borrowed -= lender != NULL;
        return amb_batch_outcome(pub, status);
    }
    atomic_store_explicit(&pub->posted, seq, memory_order_release);
    if (status == AMB_OK) {
        amb_pub_batch_sent(large);
        if (!large->is_waited && !large->is_kept) {
            amb_pub_batch_put(conn, large);
        }
    }
    return AMB_OK;
}

/* Sends what the rule lets go, or only what is too old; see amb_pub_flush_due. */
static unsigned flush_some(struct amb_conn *conn, int64_t now_ns, bool is_only_old)
{
    unsigned left = 0;
    for (uint32_t i = 0; i < conn->handles.pub_high; i++) {
        struct amb_pub *pub = conn->handles.pubs[i];
        if (pub == NULL ||
            !(atomic_load_explicit(&pub->is_gathering, memory_order_relaxed) ||
              pub->away.must_gather) ||
            !amb_spinlock_try(&pub->lock)) {
            continue; /* The holder of the lock looks for itself. */
        }
        if (__builtin_expect(!amb_list_is_empty(&pub->away.aside) || pub->away.must_gather, 0)) {
            left += amb_pub_flush_open(pub) == AMB_OK;
        }
        const struct amb_batch *batch = pub->open;
        if (batch == NULL || batch->count == 0) {
            batch = amb_list_is_empty(&pub->queue) ? NULL : amb_commit_queue_first(pub);
        }
        if (batch != NULL) {
            bool is_in_flight = is_only_old || amb_pub_in_flight(pub);
            if (!is_in_flight) {
                pub->rule.is_flowing = false; /* Its publisher may have stopped. */
            }
            if (atomic_load_explicit(&pub->must_leave, memory_order_relaxed) ||
                amb_batch_rule_ask(&pub->rule, batch->count, amb_batch_size(batch), is_in_flight,
                                   now_ns)) {
                left += amb_pub_flush_open(pub) == AMB_OK;
            }
        }
        amb_spinlock_unlock(&pub->lock);
    }
    return left;
}

unsigned amb_pub_flush_due(struct amb_conn *conn)
{
    return flush_some(conn, amb_clock_monotonic_ns(), false);
}

unsigned amb_pub_flush_lingering(struct amb_conn *conn, int64_t now_ns)
{
    return flush_some(conn, now_ns, true);
}
