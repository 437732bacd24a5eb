/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches leave: window, frame, link, and what happens when the broker answers.
 */
#include "client/conn.h"
#include "client/due.h"
#include "client/gpu.h"
#include "client/inbox.h"
#include "client/pub.h"
#include "client/slots.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define BATCHES_CACHED_MAX 64u
#define LARGES_CACHED_MAX 1024u /* small, and as many as private leases may be on their way */

struct amb_batch *amb_pub_batch_get(struct amb_conn *conn)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->batches);
    if (node == NULL) {
        return amb_batch_create(conn->batch_bytes);
    }
    conn->batches_cached--;
    return AMB_CONTAINER_OF(node, struct amb_batch, node);
}

struct amb_batch *amb_pub_large_get(struct amb_conn *conn)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->larges);
    if (node == NULL) {
        return amb_batch_create_large();
    }
    conn->larges_cached--;
    return AMB_CONTAINER_OF(node, struct amb_batch, node);
}

struct amb_batch *amb_pub_commit_get(struct amb_conn *conn)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->commits);
    if (node == NULL) {
        return amb_batch_create_leased();
    }
    conn->commits_cached--;
    return AMB_CONTAINER_OF(node, struct amb_batch, node);
}

void amb_pub_batch_put(struct amb_conn *conn, struct amb_batch *batch)
{
    if (batch == NULL) {
        return;
    }
    if (batch->is_pooled) {
        amb_buffers_put(&conn->lease_buffers, batch->owned, batch->owned_len);
        batch->owned = NULL;
        batch->is_pooled = false;
        amb_leases_wake(conn);
    }
    struct amb_list_node *list = &conn->batches;
    uint32_t *cached = &conn->batches_cached;
    uint32_t max = BATCHES_CACHED_MAX;
    if (batch->is_large) {
        list = &conn->larges;
        cached = &conn->larges_cached;
        max = LARGES_CACHED_MAX;
    } else if (batch->is_leased) {
        list = &conn->commits;
        cached = &conn->commits_cached;
    }
    if (*cached >= max) {
        amb_batch_destroy(&batch);
        return;
    }
    amb_batch_reset(batch);
    amb_list_push_front(list, &batch->node);
    ++*cached;
}

static void free_all(struct amb_list_node *list)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(list)) != NULL) {
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        amb_batch_destroy(&batch);
    }
}

void amb_pub_batches_fini(struct amb_conn *conn)
{
    free_all(&conn->batches);
    free_all(&conn->larges);
    free_all(&conn->commits);
    conn->batches_cached = conn->larges_cached = conn->commits_cached = 0;
}

void amb_pub_batch_sent(struct amb_batch *batch)
{
    if (batch->pub != NULL) {
        batch->pub->borrowed--;
        batch->pub = NULL;
    }
}

/* Is there window for `size` more bytes? If not, the broker knows what is wanted. */
static bool has_window(struct amb_pub *pub, uint64_t size)
{
    struct amb_conn *conn = pub->conn;
    uint64_t inflight = pub->sent_bytes - pub->settle.settled_bytes;
    bool is_own_limit = inflight != 0 && inflight + size > pub->window_bytes;
    uint64_t upto = pub->sent_bytes - pub->leased_bytes + size;
    if (upto <= pub->window && !is_own_limit) {
        return true;
    }
    pub->need = size;
    if (upto > pub->window && pub->wanted != upto) {
        pub->wanted = upto;
        amb_link_flow(conn->link, AMB_FLOW_WANT, pub->handle, pub->wanted);
        conn->must_flush = true;
    }
    return false;
}

/* Numbers the batch and gives it to the link, whose answer it returns. */
static enum amb_status send_batch(struct amb_pub *pub, struct amb_batch *batch, uint64_t last_seq)
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
    batch->out.kind = AMB_OUTGOING_BATCH;
    if (batch->is_leased) {
        batch->out.frame.segment = batch->slots->id;
        batch->out.frame.number =
            amb_commits_add(&conn->leases, batch->slots, batch->slot_head, batch->count);
        batch->slots = NULL; /* They are the commit's. */
        if (__builtin_expect(batch->has_failed, 0)) {
            batch->has_failed = false;
            batch->out.frame.status = AMB_ECUDA; /* The broker refuses it in its turn. */
        }
        pub->leased_bytes += size;
        pub->leased += batch->count;
    }
    amb_settle_sent(&pub->settle, last_seq, size);
    pub->sent_bytes += size;
    atomic_store_explicit(&pub->sent_batches, number, memory_order_relaxed);
    status = amb_outgoing_send(conn, &batch->out);
    if (conn->link != NULL) {
        conn->must_flush = false;
        amb_link_flush(conn->link);
    }
    return status;
}

static struct amb_batch *first_queued(const struct amb_pub *pub)
{
    return AMB_CONTAINER_OF(pub->queue.next, struct amb_batch, node);
}

/* The batch of small messages alone. */
static enum amb_status flush_small(struct amb_pub *pub)
{
    struct amb_batch *batch = pub->open;
    if (batch == NULL || batch->count == 0) {
        return AMB_OK;
    }
    if (!has_window(pub, amb_batch_size(batch))) {
        return AMB_EAGAIN;
    }
    uint64_t last = atomic_load_explicit(&pub->posted, memory_order_relaxed);
    if (!amb_list_is_empty(&pub->queue)) {
        last = first_queued(pub)->first_seq - 1;
    }
    enum amb_status status = send_batch(pub, batch, last);
    if (status == AMB_OK) {
        amb_batch_reset(batch);
    } else if (status == AMB_EAGAIN) {
        pub->open = amb_pub_batch_get(pub->conn);
    } else {
        return status;
    }
    return AMB_OK;
}

/* Has the GPU done with the payloads of a batch? */
static bool has_passed_fences(struct amb_batch *batch)
{
    struct amb_gpu_fence *fence;
    while ((fence = batch->fences) != NULL) {
        struct amb_gpu_fence *next = fence->next;
        enum amb_status status = amb_gpu_fence_look(fence);
        if (status == AMB_EAGAIN) {
            return false;
        }
        batch->fences = next;
        batch->has_failed = batch->has_failed || status != AMB_OK;
    }
    return true;
}

static enum amb_status flush_queue(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    while (!amb_list_is_empty(&pub->queue)) {
        struct amb_batch *batch = first_queued(pub);
        if (batch->is_leased ? batch->fences != NULL && !has_passed_fences(batch)
                             : !has_window(pub, amb_batch_size(batch))) {
            return AMB_EAGAIN;
        }
        amb_list_remove(&batch->node);
        bool is_leased = batch->is_leased;
        enum amb_status status = send_batch(pub, batch, batch->first_seq + batch->count - 1);
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
    pub->batch_msgs = conn->batch_msgs;
    return AMB_OK;
}

void amb_pub_enqueue(struct amb_pub *pub, struct amb_batch *batch)
{
    pub->batch_msgs = 0;
    amb_list_push_back(&pub->queue, &batch->node);
}

void amb_pub_queue_drop(struct amb_pub *pub)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&pub->queue)) != NULL) {
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        while (batch->fences != NULL) { /* A GPU writes there until then. */
            struct amb_gpu_fence *fence = batch->fences;
            batch->fences = fence->next;
            (void)amb_gpu_fence_wait(fence);
        }
        batch->has_failed = false;
        while (batch->slots != NULL && batch->slot_head != AMB_SLOT_NONE) {
            struct amb_place place = {.slots = batch->slots, .slot = batch->slot_head};
            batch->slot_head = batch->slots->next[place.slot];
            amb_place_return(&place);
        }
        amb_pub_batch_put(pub->conn, batch);
    }
}

enum amb_status amb_pub_flush_open(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (!atomic_load_explicit(&pub->is_staged, memory_order_relaxed)) {
        return AMB_OK;
    }
    if (conn->down != AMB_OK || conn->link == NULL) {
        return conn->down != AMB_OK ? conn->down : AMB_ECLOSED;
    }
    uint64_t bytes = pub->open != NULL ? amb_batch_size(pub->open) : 0;
    enum amb_status status = flush_small(pub);
    if (status == AMB_OK) {
        status = flush_queue(pub);
    }
    if (status != AMB_OK) {
        atomic_fetch_or_explicit(&pub->wary, AMB_WARY_HELD, memory_order_relaxed);
        return status;
    }
    if ((atomic_load_explicit(&pub->wary, memory_order_relaxed) & AMB_WARY_HELD) != 0) {
        atomic_fetch_and_explicit(&pub->wary, ~AMB_WARY_HELD, memory_order_relaxed);
    }
    atomic_store_explicit(&pub->is_staged, false, memory_order_relaxed);
    atomic_store_explicit(&pub->must_leave, false, memory_order_relaxed);
    atomic_fetch_sub_explicit(&conn->staged, 1, memory_order_relaxed);
    amb_batch_rule_left(&pub->rule, bytes);
    conn->is_bulk = pub->rule.is_flowing;
    return AMB_OK;
}

enum amb_status amb_pub_flush_large(struct amb_pub *pub, struct amb_batch *large)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_pub_flush_open(pub);
    if (status != AMB_OK) {
        return status;
    }
    if (conn->down != AMB_OK || conn->link == NULL) {
        return conn->down != AMB_OK ? conn->down : AMB_ECLOSED;
    }
    if (!has_window(pub, amb_batch_size(large))) {
        return AMB_EAGAIN;
    }
    uint64_t seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
    struct amb_pub *lender = large->pub;
    pub->borrowed += lender != NULL;
    status = send_batch(pub, large, seq);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        pub->borrowed -= lender != NULL;
        return status;
    }
    atomic_store_explicit(&pub->posted, seq, memory_order_release);
    if (status == AMB_OK) {
        amb_pub_batch_sent(large);
        if (!large->is_waited) {
            amb_pub_batch_put(conn, large);
        }
    }
    return AMB_OK;
}

/* Sends what the rule lets go, or only what is too old; see amb_pub_flush_due. */
static unsigned flush_some(struct amb_conn *conn, int64_t now_ns, bool is_only_old)
{
    unsigned left = 0;
    for (uint32_t i = 0; i < conn->pub_high; i++) {
        struct amb_pub *pub = conn->pubs[i];
        if (pub == NULL || !atomic_load_explicit(&pub->is_staged, memory_order_relaxed) ||
            !amb_spinlock_try(&pub->lock)) {
            continue; /* Who has the lock looks for itself. */
        }
        const struct amb_batch *batch = pub->open;
        if (batch == NULL || batch->count == 0) {
            batch = amb_list_is_empty(&pub->queue) ? NULL : first_queued(pub);
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

/* ---- what the broker says ---- */

static void after_settling(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (conn->failure == AMB_OK && pub->settle.failure != AMB_OK) {
        conn->failure = pub->settle.failure;
    }
    /* Release: pairs with the look of those who have only the publisher's lock. */
    atomic_store_explicit(&pub->settled_seq, pub->settle.settled_seq, memory_order_release);
    amb_conn_changed(conn);
    if (pub->settle.range_count != 0) {
        amb_due_callback(conn);
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
    enum amb_status status = amb_settle_upto(&pub->settle, batches, pub->is_settled_told);
    after_settling(pub);
    return status;
}

enum amb_status amb_pub_settled(struct amb_pub *pub, const struct amb_frame *frame)
{
    enum amb_status why = frame->status < 0 ? (enum amb_status)frame->status : AMB_OK;
    enum amb_status status =
        amb_settle_told(&pub->settle, frame->seq, why, frame->number, frame->count);
    if (status == AMB_OK && pub->asking.is_on && frame->seq > pub->settle.settled) {
        amb_asking_settled(pub, amb_settle_first_seq(&pub->settle, frame->seq),
                           amb_settle_last_seq(&pub->settle, frame->seq), why, frame->count);
    }
    if (status == AMB_OK && pub->is_settled_told) {
        status = amb_settle_upto(&pub->settle, frame->seq, true);
    }
    after_settling(pub);
    return status;
}

enum amb_status amb_pub_window(struct amb_pub *pub, uint64_t bytes)
{
    if (bytes > pub->window) {
        pub->window = bytes;
        amb_conn_changed(pub->conn);
    }
    return AMB_OK;
}

void amb_pub_subscribers(struct amb_pub *pub, uint32_t count)
{
    pub->has_heard_subscribers = true;
    if (atomic_exchange_explicit(&pub->subscribers, count, memory_order_relaxed) != count) {
        amb_conn_changed(pub->conn);
        amb_event_subscribers(pub->conn, pub, count);
    }
}

void amb_pub_settle_all(struct amb_pub *pub, enum amb_status why)
{
    uint64_t posted = atomic_load_explicit(&pub->posted, memory_order_acquire);
    uint64_t first = pub->settle.settled_seq + 1;
    amb_settle_rest(&pub->settle, posted, why);
    if (pub->asking.is_on && first <= posted) {
        amb_asking_settled(pub, first, posted, why, 0);
    }
    after_settling(pub);
}
