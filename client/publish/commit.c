/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/commit.h"

#include "client/batch/batches.h"
#include "client/batch/commit_queue.h"
#include "client/batch/flush.h"
#include "client/conn/conn.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/memory/gpu_fence.h"
#include "client/memory/keep.h"
#include "client/memory/slots.h"
#include "client/memory/slots_life.h"
#include "client/publish/lease.h"
#include "client/publish/put.h"
#include "client/publish/small.h"
#include "wire/base/copy.h"

#include <string.h>

/* Payloads of several messages in one commit: a subscriber that may not map gets them in one
 * piece. */
#define COMMIT_BYTES (UINT64_C(8) << 20)
#define WARM_NS AMB_NS_PER_MS

/* Padding goes out with a payload that is copied: no stale bytes in it. */
static void zero_padding(uint8_t *bytes, uint64_t len)
{
    memset(bytes + len, 0, amb_payload_padded(len) - len);
}

/* How many messages make a commit full. With few slots, most of them must not wait in one commit.
 * Half of the slots (see amb_slots_are_away) shall be more than one commit. */
static uint32_t count_max(const struct amb_conn *conn, const struct amb_slots *slots)
{
    uint32_t share = slots->count > 3 ? slots->count / 3 : 1;
    return share < conn->session.batch_msgs ? share : conn->session.batch_msgs;
}

static bool is_full(const struct amb_conn *conn, const struct amb_batch *batch)
{
    return batch->count >= count_max(conn, batch->slots) ||
           batch->data_len + batch->slots->slot > COMMIT_BYTES;
}

/* The batch that this message may join; NULL: it needs a new one. Publisher's lock held. */
static struct amb_batch *tail_for(const struct amb_pub *pub, const struct amb_put *put,
                                  const struct amb_place *place)
{
    if (amb_list_is_empty(&pub->queue)) {
        return NULL;
    }
    struct amb_batch *tail = AMB_CONTAINER_OF(pub->queue.prev, struct amb_batch, node);
    bool fits = tail->is_leased && !tail->is_packed && tail->slots == place->slots &&
                !is_full(pub->conn, tail) &&
                tail->blob_len + amb_props_padded(put->blob_len) <= tail->blob_cap;
    return fits ? tail : NULL;
}

/* Earlier messages leave first, if they can. The new batch stands behind the rest. */
static struct amb_batch *begin(struct amb_pub *pub, const struct amb_place *place)
{
    struct amb_conn *conn = pub->conn;
    amb_conn_lock(conn);
    (void)amb_pub_flush_open(pub);
    if (!amb_list_is_empty(&pub->queue)) { /* Nothing comes to its last one any more. */
        (void)amb_batch_pack_queued(conn,
                                    AMB_CONTAINER_OF(pub->queue.prev, struct amb_batch, node));
    }
    struct amb_batch *batch = amb_pub_commit_get(conn);
    amb_conn_unlock(conn);
    if (batch != NULL) {
        batch->slots = place->slots;
        batch->out.frame.status = AMB_OK;
        batch->first_seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
        amb_commit_queue_add(pub, batch);
    }
    return batch;
}

static enum amb_status add_props(struct amb_batch *batch, const struct amb_put *put)
{
    if (put->blob_len == 0 && put->key_hash == 0 && put->ttl_ms == 0) {
        return AMB_OK;
    }
    return amb_batch_add_props(batch, put->blob, put->blob_len, put->key_hash, put->ttl_ms);
}

static void place_return(struct amb_conn *conn, const struct amb_place *place)
{
    amb_conn_lock(conn);
    amb_place_return(place);
    amb_conn_unlock(conn);
}

/* Takes a batch out of the queue's end again that has no message. Publisher's lock held. */
static void dequeue(struct amb_pub *pub, struct amb_batch *batch)
{
    struct amb_conn *conn = pub->conn;
    amb_list_remove(&batch->node);
    if (amb_list_is_empty(&pub->queue)) {
        pub->batch_msgs = conn->session.batch_msgs;
    }
    amb_conn_lock(conn);
    amb_pub_batch_put(conn, batch);
    amb_conn_unlock(conn);
}

static uint64_t next_seq(struct amb_pub *pub, uint64_t *seq)
{
    uint64_t number = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
    atomic_store_explicit(&pub->posted, number, memory_order_release);
    if (seq != NULL) {
        *seq = number;
    }
    return number;
}

/* fence: it leaves when that is over; NULL: nothing to wait for. */
static inline __attribute__((always_inline)) enum amb_status
commit_place(struct amb_pub *pub, const struct amb_put *put, const struct amb_place *place,
             struct amb_gpu_fence *fence, uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    amb_spinlock_lock(&pub->lock);
    struct amb_batch *batch = tail_for(pub, put, place);
    if (batch == NULL) {
        batch = begin(pub, place);
    }
    enum amb_status status = AMB_ENOMEM;
    if (batch != NULL) {
        amb_batch_add_leased(batch, place->slot * place->slots->slot, put->len);
        amb_batch_say_mem(batch, put->mem);
        status = add_props(batch, put);
        if (status != AMB_OK) {
            amb_batch_undo(batch);
            if (batch->count == 0) {
                dequeue(pub, batch);
            }
        }
    }
    if (status == AMB_OK) {
        place->slots->next[place->slot] = batch->slot_head;
        batch->slot_head = place->slot;
        (void)next_seq(pub, seq);
        if (fence != NULL) {
            fence->next = batch->fences;
            batch->fences = fence;
            atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
        }
        pub->fresh = fence;
        amb_put_added(pub, batch, is_full(conn, batch));
        pub->fresh = NULL;
    }
    amb_spinlock_unlock(&pub->lock);
    if (status != AMB_OK) {
        if (fence != NULL) {
            (void)amb_gpu_fence_wait(fence);
        }
        place_return(conn, place);
    }
    return status;
}

enum amb_status amb_commit_place(struct amb_pub *pub, const struct amb_put *put,
                                 const struct amb_place *place, uint64_t *seq)
{
    zero_padding(amb_place_bytes(place), put->len);
    return commit_place(pub, put, place, NULL, seq);
}

enum amb_status amb_commit_place_gpu(struct amb_pub *pub, const struct amb_put *put,
                                     const struct amb_place *place, struct amb_gpu_fence *fence,
                                     uint64_t *seq)
{
    return commit_place(pub, put, place, fence, seq);
}

enum amb_status amb_commit_place_pinned(struct amb_pub *pub, const struct amb_put *put,
                                        const struct amb_place *place, struct amb_gpu_fence *fence,
                                        uint64_t *seq)
{
    zero_padding(amb_place_bytes(place), put->len);
    return commit_place(pub, put, place, fence, seq);
}

struct warm_wait {
    const struct amb_conn *conn;
    struct amb_slot_wish slot;
};

static bool is_warm(void *arg)
{
    const struct warm_wait *wait = arg;
    return !amb_slots_are_deep(wait->conn, wait->slot);
}

/* Until few enough slots are in use, for a moment at most. Lock held, given up meanwhile. */
static void wait_warm(struct amb_pub *pub, struct amb_slot_wish slot)
{
    struct amb_conn *conn = pub->conn;
    struct warm_wait what = {.conn = conn, .slot = slot};
    struct amb_wait wait = {.is_ready = is_warm,
                            .arg = &what,
                            .timeout_ns = WARM_NS,
                            .flags = AMB_WAIT_FLOW,
                            .is_over = &pub->is_closing};
    if (amb_conn_wait(conn, &wait) == AMB_ETIMEDOUT) {
        amb_slots_deepen(conn, slot);
    }
}

enum amb_status amb_put_slot(struct amb_pub *pub, const struct amb_put *put, bool may_wait,
                             uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    struct amb_place place;
    amb_conn_lock(conn);
    const struct amb_slot_wish slot = amb_pub_slot(pub, put->len);
    if (may_wait && amb_slots_are_deep(conn, slot)) {
        wait_warm(pub, slot);
    }
    bool has_memory = !amb_batches_are_full(conn);
    bool has_place = has_memory && amb_place_take(conn, slot, &place);
    if (!has_place && has_memory &&
        (amb_slots_look(conn, slot) == AMB_ROOM_NONE || amb_slots_are_few(conn, slot))) {
        (void)amb_slots_open(conn, slot); /* For the next ones. */
    }
    amb_conn_unlock(conn);
    if (!has_place) {
        return AMB_EAGAIN;
    }
    if (put->iov == NULL) {
        amb_copy(amb_place_bytes(&place), put->data, put->len);
    } else {
        amb_put_gather(amb_place_bytes(&place), put);
    }
    return amb_commit_place(pub, put, &place, seq);
}

/* ---- without a segment ---- */

static void bytes_return(struct amb_conn *conn, const struct amb_lease *own)
{
    amb_conn_lock(conn);
    amb_keep_return(conn, own->keep, own->bytes, own->room);
    amb_conn_unlock(conn);
}

/* A batch of this message alone, which owns its memory. */
static struct amb_batch *wrap(struct amb_conn *conn, const struct amb_put *put,
                              const struct amb_lease *own)
{
    amb_conn_lock(conn);
    struct amb_batch *batch = amb_pub_large_get(conn, 0);
    amb_conn_unlock(conn);
    if (batch == NULL) {
        return NULL;
    }
    amb_batch_records(batch)[0] = (struct amb_record){.len = (uint32_t)put->len};
    batch->count = 1;
    amb_batch_say_mem(batch, put->mem);
    if (add_props(batch, put) != AMB_OK) {
        amb_conn_lock(conn);
        amb_pub_batch_put(conn, batch);
        amb_conn_unlock(conn);
        return NULL;
    }
    batch->data = batch->owned = own->bytes;
    batch->owned_len = own->room;
    batch->keep = own->keep;
    batch->is_pooled = true;
    batch->data_len = amb_payload_padded(put->len);
    zero_padding(own->bytes, put->len);
    return batch;
}

enum amb_status amb_commit_private(struct amb_pub *pub, const struct amb_put *put,
                                   const struct amb_lease *own, uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    uint64_t whole =
        amb_payload_padded(put->len) + amb_props_padded(put->blob_len) + sizeof(struct amb_record);
    if (whole <= conn->session.batch_bytes) {
        struct amb_put small = *put;
        small.data = own->bytes;
        enum amb_status status = amb_put_small(pub, &small, seq);
        if (status != AMB_EAGAIN) {
            bytes_return(conn, own);
            return status;
        }
    }
    struct amb_batch *batch = wrap(conn, put, own);
    if (batch == NULL) {
        bytes_return(conn, own);
        return AMB_ENOMEM;
    }
    amb_spinlock_lock(&pub->lock);
    batch->first_seq = next_seq(pub, seq);
    amb_commit_queue_add(pub, batch);
    amb_put_added(pub, batch, true);
    amb_spinlock_unlock(&pub->lock);
    return AMB_OK;
}
