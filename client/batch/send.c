/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/send.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/commits.h"
#include "client/memory/slots.h"

bool amb_batch_would_stay(const struct amb_pub *pub)
{
    const struct amb_link *link = pub->conn->link;
    return pub->is_named || (link != NULL && link->queued != 0);
}

enum amb_status amb_batch_send(struct amb_pub *pub, struct amb_batch *batch, uint64_t last_seq)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_settle_reserve(&pub->settle);
    if (status != AMB_OK) {
        return AMB_ENOMEM;
    }
    if (batch->is_leased && amb_commits_reserve(&conn->leases) != AMB_OK) {
        return AMB_ENOMEM;
    }
    amb_batch_close(batch);
    uint64_t size = amb_batch_size(batch);
    uint64_t number = atomic_load_explicit(&pub->sent_batches, memory_order_relaxed) + 1;
    batch->out.frame.handle = pub->handle;
    batch->out.frame.seq = number;
    batch->out.kind = AMB_CONN_TX_BATCH;
    if (batch->is_leased) {
        batch->out.frame.segment = batch->slots->id;
        batch->out.frame.number =
            amb_commits_add(&conn->leases, batch->slots, batch->slot_head, batch->count);
        batch->slots = NULL; /* They are the commit's. */
        if (__builtin_expect(batch->has_failed, 0)) {
            batch->has_failed = false;
            batch->out.frame.status = AMB_ECUDA; /* The broker refuses it in its turn. */
        }
        pub->window.leased += size;
        pub->lease.messages += batch->count;
    }
    if (pub->is_named) {
        batch->first_seq = last_seq - batch->count + 1;
        batch->is_kept = true;
    }
    amb_settle_sent(&pub->settle, last_seq, size);
    pub->window.sent += size;
    atomic_store_explicit(&pub->sent_batches, number, memory_order_relaxed);
    bool is_leased = batch->is_leased;
    status = amb_conn_tx_send(conn, &batch->out);
    if (__builtin_expect(status != AMB_OK && status != AMB_EAGAIN, 0) && !is_leased &&
        conn->again.is_on) {
        /* It is not sent, and may be in another session. */
        amb_settle_unsent(&pub->settle);
        pub->window.sent -= size;
        atomic_store_explicit(&pub->sent_batches, number - 1, memory_order_relaxed);
        batch->is_kept = false;
    } else if (pub->is_named && (status == AMB_OK || status == AMB_EAGAIN)) {
        amb_list_push_back(&pub->away.unacked, &batch->node);
    }
    if (conn->link != NULL) {
        amb_conn_flush_link(conn);
    }
    return status;
}

enum amb_status amb_batch_outcome(const struct amb_pub *pub, enum amb_status status)
{
    bool may_wait = pub->conn->again.is_on && amb_status_scope_of(status) == AMB_SCOPE_SESSION &&
                    !amb_conn_has_trouble(pub->conn, AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    return may_wait ? AMB_EAGAIN : status;
}

void amb_pub_batch_sent(struct amb_batch *batch)
{
    if (batch->pub != NULL) {
        batch->pub->borrowed--;
        batch->pub = NULL;
    }
}
