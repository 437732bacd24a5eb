/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/publish_large.h"

#include "client/batch/batches.h"
#include "client/batch/flush.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/upcalls.h"
#include "client/drive/wake.h"
#include "client/publish/put.h"
#include "wire/base/copy.h"

#include <stdlib.h>
#include <string.h>

static bool is_copied(const struct amb_pub *pub, const struct amb_put *put)
{
    return put->iov != NULL || pub->is_named || put->is_copied;
}

uint64_t amb_large_memory(const struct amb_pub *pub, const struct amb_put *put)
{
    return amb_batches_large(is_copied(pub, put) ? amb_payload_padded(put->len) : 0);
}

/* With room for a copy of `owned` bytes. EAGAIN: others hold too much. */
static enum amb_status large_get(struct amb_pub *pub, uint64_t owned, struct amb_batch **out)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = AMB_EAGAIN;
    amb_conn_lock(conn);
    if (amb_batches_have_room(conn, amb_batches_large(owned))) {
        *out = amb_pub_large_get(conn, owned);
        status = *out != NULL ? AMB_OK : AMB_ENOMEM;
    }
    amb_conn_unlock(conn);
    return status;
}

void amb_large_drop(struct amb_pub *pub, struct amb_batch *batch)
{
    amb_conn_lock(pub->conn);
    amb_pub_batch_put(pub->conn, batch);
    amb_conn_changed(pub->conn); /* Calls that wait for memory look again. */
    amb_conn_unlock(pub->conn);
}

/* A batch of this message alone. Its payload goes out from where it lies. Pieces, and a payload
 * that may have to go out again, go out from a copy. */
static enum amb_status prepare_large(struct amb_pub *pub, const struct amb_put *put,
                                     struct amb_batch **out)
{
    uint64_t padded = amb_payload_padded(put->len);
    bool has_copy = is_copied(pub, put);
    struct amb_batch *batch = NULL;
    enum amb_status status = large_get(pub, has_copy ? padded : 0, &batch);
    if (status != AMB_OK) {
        return status;
    }
    amb_batch_records(batch)[0] = (struct amb_record){.len = (uint32_t)put->len};
    batch->count = 1;
    amb_batch_say_mem(batch, put->mem);
    batch->out.frame.number = put->expect;
    batch->data_len = padded;
    batch->out.tx.is_device = put->is_device;
    if (put->is_device) {
        batch->out.frame.flags |= AMB_FRAME_FLAG_DEVICE;
    }
    if (!has_copy) {
        batch->data = (uint8_t *)(uintptr_t)put->data;
        batch->data_pad = (uint32_t)(padded - put->len);
    } else {
        batch->owned = aligned_alloc(64, (padded + 63) & ~UINT64_C(63));
        if (batch->owned == NULL) {
            amb_large_drop(pub, batch);
            return AMB_ENOMEM;
        }
        if (put->iov != NULL) {
            amb_put_gather(batch->owned, put);
        } else {
            amb_copy(batch->owned, put->data, put->len);
        }
        memset(batch->owned + put->len, 0, padded - put->len);
        batch->data = batch->owned;
    }
    status = amb_batch_add_props(batch, put->blob, put->blob_len, put->key_hash, put->ttl_ms);
    if (status != AMB_OK) {
        amb_large_drop(pub, batch);
        return status;
    }
    *out = batch;
    return AMB_OK;
}

static bool is_sent(void *arg)
{
    const struct amb_batch *batch = arg;
    return !batch->out.is_queued;
}

/* The program does not wait for the link, which reads on from a copy. Where none can be made
 * the session ends, and with it the link. Lock held, given up while bytes are copied. */
static void leave_copy(struct amb_conn *conn, struct amb_batch *batch)
{
    uint64_t len = batch->data_len - batch->data_pad;
    amb_conn_unlock(conn);
    uint8_t *copy = batch->out.tx.is_device ? NULL : malloc(len);
    if (copy != NULL) {
        amb_copy(copy, batch->data, len); /* The link reads there, too. */
    }
    amb_conn_lock(conn);
    if (!batch->out.is_queued) {
        free(copy);
        return;
    }
    if (copy == NULL || !amb_conn_tx_move(conn, &batch->out, copy)) {
        free(copy);
        amb_conn_lost(conn, AMB_ELOST, "called off while the link read a payload");
        return;
    }
    amb_batch_discharge(conn, batch);
    batch->data = batch->owned = copy;
    batch->owned_len = len;
    batch->is_waited = false; /* It is freed when it is sent. */
    amb_batch_charge(conn, batch);
}

/* Until the link has read the caller's memory, which nothing takes back. True: the batch is the
 * caller's to put away. False: it was left to the link, with a copy. */
static bool wait_sent(struct amb_conn *conn, struct amb_batch *batch)
{
    struct amb_wait wait = {.is_ready = is_sent,
                            .arg = batch,
                            .timeout_ns = AMB_FOREVER,
                            .flags = AMB_WAIT_CLOSER | AMB_WAIT_LOST | AMB_WAIT_FLOW};
    if (amb_conn_wait_asking(conn, &wait) == AMB_ECANCELED && batch->out.is_queued) {
        leave_copy(conn, batch);
        if (batch->is_waited) {
            (void)amb_conn_wait(conn, &wait);
        }
    }
    return batch->is_waited;
}

static enum amb_status try_large(struct amb_pub *pub, struct amb_batch *batch, uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    bool is_waited = batch->is_waited;
    amb_spinlock_lock(&pub->lock);
    amb_conn_lock(conn);
    enum amb_status status = amb_pub_flush_large(pub, batch);
    if (status == AMB_EAGAIN) {
        (void)amb_conn_progress(conn);
        status = amb_pub_flush_large(pub, batch);
        if (status == AMB_EAGAIN) {
            amb_pub_push_open(pub);
        }
    }
    if (status == AMB_OK && seq != NULL) {
        *seq = atomic_load_explicit(&pub->posted, memory_order_relaxed);
    }
    amb_spinlock_unlock(&pub->lock);
    if (status == AMB_OK && is_waited) {
        if (wait_sent(conn, batch)) {
            amb_pub_batch_put(conn, batch);
        }
        amb_conn_changed(conn); /* Its receipt may have been here before this thread. */
    }
    amb_conn_unlock(conn);
    return status;
}

enum amb_status amb_put_large(struct amb_pub *pub, const struct amb_put *put,
                              struct amb_batch **large, uint64_t *seq)
{
    if (*large == NULL) {
        enum amb_status status = prepare_large(pub, put, large);
        if (status == AMB_EAGAIN) {
            return status;
        }
        if (status != AMB_OK) {
            return amb_conn_fail(pub->conn, status, "no memory for a message of %llu bytes",
                                 (unsigned long long)put->len);
        }
        (*large)->is_waited = (*large)->owned == NULL && !put->is_lent;
        (*large)->pub = (*large)->owned == NULL && put->is_lent ? pub : NULL;
    }
    enum amb_status status = try_large(pub, *large, seq);
    if (status == AMB_OK) {
        *large = NULL;
    }
    return status;
}
