/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/away.h"

#include "client/batch/batches.h"
#include "client/batch/pub.h"
#include "client/batch/pub_settle.h"
#include "client/batch/send.h"
#include "client/conn/conn.h"

void amb_pubs_pause(struct amb_conn *conn)
{
    for (uint32_t i = 0; i < conn->handles.pub_high; i++) {
        if (conn->handles.pubs[i] != NULL) {
            conn->handles.pubs[i]->away.is_on = true;
        }
    }
}

void amb_pub_lose(struct amb_pub *pub)
{
    pub->away.is_on = true;
    if (!pub->is_named) { /* Else it is known once there is another session. */
        amb_pub_settle_upto(pub, amb_settle_sent_seq(&pub->settle), AMB_EUNKNOWN);
    }
}

bool amb_pub_put_aside(struct amb_pub *pub)
{
    struct amb_batch *batch = pub->open;
    if (!pub->away.is_on || pub->away.refused != AMB_OK || batch == NULL || batch->count == 0 ||
        !amb_list_is_empty(&pub->queue) ||
        pub->away.aside_bytes + amb_batch_size(batch) > pub->window.limit_bytes) {
        return false;
    }
    struct amb_batch *next = amb_pub_batch_get(pub->conn);
    if (next == NULL) {
        return false;
    }
    batch->first_seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) - batch->count + 1;
    pub->away.aside_bytes += amb_batch_size(batch);
    amb_batch_charge(pub->conn, batch);
    amb_list_push_back(&pub->away.aside, &batch->node);
    pub->open = next;
    return true;
}

void amb_pub_send_again(struct amb_pub *pub, uint64_t come)
{
    uint64_t posted = atomic_load_explicit(&pub->posted, memory_order_relaxed);
    /* They have come; whether they were delivered is not known. */
    enum amb_status status = pub->settle.awaits_delivery ? AMB_EUNKNOWN : AMB_OK;
    amb_pub_settle_upto(pub, come < posted ? come : posted, status);
    while (!amb_list_is_empty(&pub->away.unacked)) {
        struct amb_list_node *last = pub->away.unacked.prev;
        amb_list_remove(last);
        amb_list_push_front(&pub->away.aside, last);
        pub->away.aside_bytes += amb_batch_size(AMB_CONTAINER_OF(last, struct amb_batch, node));
    }
    if (!amb_list_is_empty(&pub->away.aside) && !pub->away.must_gather) {
        pub->away.must_gather = true; /* The next holder of the publisher's lock sees to it. */
        atomic_fetch_add_explicit(&pub->conn->gathering, 1, memory_order_seq_cst);
    }
}

void amb_away_gather(struct amb_pub *pub)
{
    pub->away.must_gather = false;
    if (atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&pub->conn->gathering, 1, memory_order_relaxed);
    } else {
        atomic_store_explicit(&pub->is_gathering, true, memory_order_relaxed);
    }
    atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
}

enum amb_status amb_away_flush(struct amb_pub *pub)
{
    while (!amb_list_is_empty(&pub->away.aside)) {
        struct amb_batch *batch = AMB_CONTAINER_OF(pub->away.aside.next, struct amb_batch, node);
        uint64_t size = amb_batch_size(batch);
        if (!amb_pub_has_window(pub, size)) {
            return AMB_EAGAIN;
        }
        amb_list_remove(&batch->node);
        enum amb_status status = amb_batch_send(pub, batch, batch->first_seq + batch->count - 1);
        if (status != AMB_OK && status != AMB_EAGAIN) {
            amb_list_push_front(&pub->away.aside, &batch->node);
            return status;
        }
        pub->away.aside_bytes -= size;
        if (status == AMB_OK && !pub->is_named) {
            amb_pub_batch_put(pub->conn, batch);
        }
    }
    return AMB_OK;
}

void amb_away_drop(struct amb_pub *pub)
{
    struct amb_list_node *node;
    while (!amb_list_is_empty(&pub->away.unacked)) {
        amb_pub_unkeep(pub, AMB_CONTAINER_OF(pub->away.unacked.next, struct amb_batch, node));
    }
    if (pub->away.must_gather) {
        pub->away.must_gather = false;
        atomic_fetch_sub_explicit(&pub->conn->gathering, 1, memory_order_relaxed);
    }
    while ((node = amb_list_pop_front(&pub->away.aside)) != NULL) {
        amb_pub_batch_put(pub->conn, AMB_CONTAINER_OF(node, struct amb_batch, node));
    }
    pub->away.aside_bytes = 0;
}
