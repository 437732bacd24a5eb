/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/commit_queue.h"

#include "client/batch/batches.h"
#include "client/batch/pub.h"
#include "client/batch/pub_settle.h"
#include "client/batch/send.h"
#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/aside.h"
#include "client/memory/gpu_fence.h"
#include "client/memory/slots.h"

void amb_commit_queue_add(struct amb_pub *pub, struct amb_batch *batch)
{
    pub->batch_msgs = 0;
    amb_list_push_back(&pub->queue, &batch->node);
}

struct amb_batch *amb_commit_queue_first(const struct amb_pub *pub)
{
    return AMB_CONTAINER_OF(pub->queue.next, struct amb_batch, node);
}

/* Of so many messages that are added while an older batch waits, one asks the driver for that. */
#define FRESH_SELDOM 16u

/* Has the GPU done with the payloads of a batch? A fence that was made just now is not over yet, so
 * it is not asked for: each question is a call of the driver. */
static bool has_passed_fences(struct amb_pub *pub, struct amb_batch *batch)
{
    if (pub->fresh != NULL &&
        (pub->fresh == batch->fences || ++pub->fresh_looks % FRESH_SELDOM != 0)) {
        return false;
    }
    return amb_gpu_fences_are_over(&batch->fences, &batch->has_failed);
}

/* One message of a commit whose segment is of a session that is over. It goes out as a batch of its
 * own, from where it lies. Moves *blob on. */
static struct amb_batch *rescue_one(struct amb_pub *pub, const struct amb_batch *commit, uint32_t i,
                                    const uint8_t **blob)
{
    struct amb_batch *batch = amb_pub_large_get(pub->conn, 0);
    if (batch == NULL) {
        return NULL;
    }
    const struct amb_record *record = &amb_batch_records(commit)[i];
    uint64_t slot = commit->offsets[i] / commit->slots->slot;
    amb_batch_records(batch)[0] = (struct amb_record){.len = record->len, .flags = record->flags};
    batch->count = 1;
    batch->first_seq = commit->first_seq + i;
    bool is_plain = record->props_len == 0 && record->key_hash == 0 && record->ttl_ms == 0;
    if (!is_plain && amb_batch_add_props(batch, *blob, record->props_len, record->key_hash,
                                         record->ttl_ms) != AMB_OK) {
        amb_pub_batch_put(pub->conn, batch);
        return NULL;
    }
    *blob = record->props_len != 0 ? *blob + amb_props_padded(record->props_len) : *blob;
    batch->data = commit->slots->base + commit->offsets[i];
    batch->data_len = amb_payload_padded(record->len);
    batch->place = (struct amb_place){.slots = commit->slots, .slot = (uint32_t)slot};
    return batch;
}

/* The connection's lock is held. */
static void give_back(struct amb_conn *conn, struct amb_batch *batch)
{
    batch->has_failed = false;
    while (batch->slots != NULL && batch->slot_head != AMB_SLOT_NONE) {
        struct amb_place place = {.slots = batch->slots, .slot = batch->slot_head};
        batch->slot_head = batch->slots->next[place.slot];
        amb_place_return(&place);
    }
    amb_pub_batch_put(conn, batch);
}

static void wait_for_fences(struct amb_batch *batch)
{
    while (batch->fences != NULL) {
        struct amb_gpu_fence *fence = batch->fences;
        batch->fences = fence->next;
        (void)amb_gpu_fence_wait(fence);
    }
}

/* On a thread of its own. */
static void give_back_written(void *arg)
{
    struct amb_conn *conn = arg;
    struct amb_list_node *node;
    amb_conn_lock(conn);
    while ((node = amb_list_pop_front(&conn->batches.written)) != NULL) {
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        amb_conn_unlock(conn);
        wait_for_fences(batch);
        amb_conn_lock(conn);
        give_back(conn, batch);
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    conn->batches.is_awaiting = false;
    if (conn->io.is_lingering) {
        amb_io_kick(conn);
    }
    amb_conn_unlock(conn);
}

/* A commit that will not leave; it is in no list any more. A GPU may write there until its fences
 * are passed. They are waited for aside, and the session lives on for them. */
static void drop_commit(struct amb_pub *pub, struct amb_batch *batch)
{
    struct amb_conn *conn = pub->conn;
    if (amb_gpu_fences_are_over(&batch->fences, &batch->has_failed)) {
        give_back(conn, batch);
        return;
    }
    amb_list_push_back(&conn->batches.written, &batch->node);
    atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    if (conn->batches.is_awaiting || amb_aside(conn, give_back_written, conn)) {
        conn->batches.is_awaiting = true;
        return;
    }
    amb_list_remove(&batch->node); /* No thread can be had. */
    wait_for_fences(batch);
    give_back(conn, batch);
    atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
}

/* The first batch of the queue, in pieces. ENOMEM: it is as it was. Memory of a GPU was the former
 * broker's and may be gone with it: nobody knows. */
static enum amb_status rescue(struct amb_pub *pub)
{
    struct amb_batch *commit = amb_commit_queue_first(pub);
    if (commit->slots->gpu != NULL) {
        uint64_t last = commit->first_seq + commit->count - 1;
        amb_list_remove(&commit->node);
        drop_commit(pub, commit);
        amb_pub_settle_upto(pub, last, AMB_EUNKNOWN);
        return AMB_OK;
    }
    struct amb_list_node pieces;
    amb_list_init(&pieces);
    const uint8_t *blob = commit->blobs;
    for (uint32_t i = 0; i < commit->count; i++) {
        struct amb_batch *batch = rescue_one(pub, commit, i, &blob);
        if (batch == NULL) {
            struct amb_list_node *node;
            while ((node = amb_list_pop_front(&pieces)) != NULL) {
                batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
                batch->place.slots = NULL;
                amb_pub_batch_put(pub->conn, batch);
            }
            return AMB_ENOMEM;
        }
        amb_list_push_back(&pieces, &batch->node);
    }
    amb_list_remove(&commit->node);
    commit->slots = NULL;
    amb_pub_batch_put(pub->conn, commit);
    while (!amb_list_is_empty(&pieces)) {
        struct amb_list_node *last = pieces.prev;
        amb_list_remove(last);
        amb_list_push_front(&pub->queue, last);
    }
    return AMB_OK;
}

/* Payloads that the broker cannot read where they lie, first in the queue, whose GPU has done its
 * part: they are transferred. A commit that the GPU has spoilt is settled so, in its turn. EAGAIN:
 * not yet; ENOMEM. */
static enum amb_status transfer(struct amb_pub *pub, struct amb_batch *commit)
{
    if (commit->fences != NULL && !has_passed_fences(pub, commit)) {
        return AMB_EAGAIN;
    }
    if (!commit->has_failed) {
        return rescue(pub);
    }
    if (pub->settle.settled != pub->settle.last) {
        return AMB_EAGAIN;
    }
    uint64_t last = commit->first_seq + commit->count - 1;
    amb_list_remove(&commit->node);
    drop_commit(pub, commit);
    amb_pub_settle_upto(pub, last, AMB_ECUDA);
    return AMB_OK;
}

enum amb_status amb_commit_queue_flush(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    while (!amb_list_is_empty(&pub->queue)) {
        struct amb_batch *batch = amb_commit_queue_first(pub);
        if (batch->is_leased && (batch->slots->is_over || batch->slots->is_private)) {
            if (transfer(pub, batch) != AMB_OK) {
                return AMB_EAGAIN;
            }
            continue;
        }
        if (batch->is_leased ? batch->fences != NULL && !has_passed_fences(pub, batch)
                             : !amb_pub_has_window(pub, amb_batch_size(batch))) {
            return AMB_EAGAIN;
        }
        if (amb_batch_would_stay(pub)) {
            batch = amb_batch_pack_queued(conn, batch);
        }
        amb_list_remove(&batch->node);
        bool is_leased = batch->is_leased;
        enum amb_status status = amb_batch_send(pub, batch, batch->first_seq + batch->count - 1);
        if (status == AMB_OK && pub->is_named) {
            continue;
        }
        if (status == AMB_OK) {
            amb_pub_batch_put(conn, batch);
        } else if (status != AMB_EAGAIN) {
            if (is_leased && batch->slots == NULL) { /* It is sent, if to nobody. */
                amb_pub_batch_put(conn, batch);
            } else {
                amb_list_push_front(&pub->queue, &batch->node);
            }
            return status;
        }
    }
    pub->batch_msgs = conn->session.batch_msgs;
    return AMB_OK;
}

void amb_commit_queue_drop(struct amb_pub *pub)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&pub->queue)) != NULL) {
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        drop_commit(pub, batch);
    }
}
