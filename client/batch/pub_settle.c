/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/pub_settle.h"

#include "client/batch/batches.h"
#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"

void amb_pub_unkeep(struct amb_pub *pub, struct amb_batch *batch)
{
    amb_list_remove(&batch->node);
    batch->is_kept = false;
    if (!batch->out.is_queued) {
        amb_pub_batch_put(pub->conn, batch);
    }
}

/* Settled batches need not be sent again. */
static void unkeep_settled(struct amb_pub *pub)
{
    while (!amb_list_is_empty(&pub->away.unacked)) {
        struct amb_batch *batch = AMB_CONTAINER_OF(pub->away.unacked.next, struct amb_batch, node);
        if (batch->first_seq + batch->count - 1 > pub->settle.settled_seq) {
            return;
        }
        amb_pub_unkeep(pub, batch);
    }
}

static void after_settling(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (conn->batches.failure == AMB_OK && pub->settle.failure != AMB_OK) {
        conn->batches.failure = pub->settle.failure;
    }
    /* Release: pairs with the look of those who have only the publisher's lock. */
    atomic_store_explicit(&pub->settled_seq, pub->settle.settled_seq, memory_order_release);
    if (pub->is_named) {
        unkeep_settled(pub);
    }
    amb_conn_changed(conn);
    if (pub->settle.range_count != 0) {
        amb_notify_callback(conn);
    }
}

enum amb_status amb_pub_accepted(struct amb_pub *pub, uint64_t batches)
{
    if (batches > atomic_load_explicit(&pub->sent_batches, memory_order_relaxed)) {
        return AMB_EPROTO;
    }
    if (batches <= atomic_load_explicit(&pub->accepted_batches, memory_order_relaxed)) {
        return AMB_OK;
    }
    atomic_store_explicit(&pub->accepted_batches, batches, memory_order_relaxed);
    enum amb_status status = amb_settle_upto(&pub->settle, batches, pub->has_settled_frames);
    after_settling(pub);
    return status;
}

enum amb_status amb_pub_settled(struct amb_pub *pub, const struct amb_frame *frame)
{
    enum amb_status why = frame->status < 0 ? (enum amb_status)frame->status : AMB_OK;
    const struct amb_settle_range said = {
        .status = why, .log_seq = frame->number, .matched = frame->count, .dropped = frame->lost};
    enum amb_status status = amb_settle_frame(&pub->settle, frame->seq, &said);
    if (status == AMB_OK && pub->asking.on_settled != NULL && frame->seq > pub->settle.settled) {
        pub->asking.on_settled(pub, amb_settle_first_seq(&pub->settle, frame->seq),
                               amb_settle_last_seq(&pub->settle, frame->seq), why, frame->count);
    }
    if (status == AMB_OK && pub->has_settled_frames) {
        /* A later batch may have been delivered sooner. Its SETTLED frame has come, and waits for
         * this one.
         */
        status = amb_settle_upto(&pub->settle, pub->settle.last, true);
    }
    after_settling(pub);
    return status;
}

enum amb_status amb_pub_window(struct amb_pub *pub, uint64_t bytes)
{
    if (bytes > pub->window.granted) {
        pub->window.granted = bytes;
        amb_conn_changed(pub->conn);
    }
    return AMB_OK;
}

void amb_pub_subscribers(struct amb_pub *pub, uint32_t count)
{
    pub->knows_subscribers = true;
    if (atomic_exchange_explicit(&pub->subscribers, count, memory_order_relaxed) != count) {
        amb_conn_changed(pub->conn);
        /* The program does not know it before it is open, and may never. */
        if (pub->is_open) {
            amb_event_subscribers(pub->conn, pub, count);
        }
    }
}

void amb_pub_settle_upto(struct amb_pub *pub, uint64_t last, enum amb_status why)
{
    uint64_t first = pub->settle.settled_seq + 1;
    amb_settle_rest(&pub->settle, last, why);
    if (pub->asking.on_settled != NULL && first <= last) {
        pub->asking.on_settled(pub, first, last, why, 0);
    }
    after_settling(pub);
}

void amb_pub_settle_all(struct amb_pub *pub, enum amb_status why)
{
    amb_pub_settle_upto(pub, atomic_load_explicit(&pub->posted, memory_order_acquire), why);
}
