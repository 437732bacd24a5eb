/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches leave: window, frame, link.
 */
#include "client/batch/flush.h"

#include "client/batch/batches.h"
#include "client/batch/pub.h"
#include "client/batch/pub_settle.h"
#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/commits.h"
#include "client/memory/gpu.h"
#include "client/memory/slots.h"

void amb_pub_batch_sent(struct amb_batch *batch)
{
    if (batch->pub != NULL) {
        batch->pub->borrowed--;
        batch->pub = NULL;
    }
}

/*
 * What is wished for: `size` bytes beyond `from`. If the batch has grown since the last wish, as
 * much again, up to a full batch. Where memory is short the broker gives exactly what was wished
 * for, one round trip later, and a batch that grows all the time would never leave.
 */
static uint64_t wish_of(const struct amb_pub *pub, uint64_t from, uint64_t size)
{
    uint64_t most = pub->conn->session.batch_bytes;
    bool has_grown = pub->window.wanted > from && size > pub->window.need && size < most;
    return from + size + (!has_grown ? 0 : size < most - size ? size : most - size);
}

static void tell_wish(struct amb_pub *pub, uint64_t wanted)
{
    pub->window.wanted = wanted;
    amb_link_flow(pub->conn->link, AMB_FLOW_WANT, pub->handle, wanted);
    pub->conn->link_state.must_flush = true;
}

/* Is there window for `size` more bytes? If not, the broker knows what is wanted. */
static bool has_window(struct amb_pub *pub, uint64_t size)
{
    uint64_t inflight = pub->window.sent - pub->settle.settled_bytes;
    bool is_own_limit = inflight != 0 && inflight + size > pub->window.limit_bytes;
    uint64_t from = pub->window.sent - pub->window.leased, upto = from + size;
    if (upto <= pub->window.granted && !is_own_limit) {
        if (__builtin_expect(pub->window.wanted > pub->window.granted, 0)) {
            tell_wish(pub, upto); /* Takes the old wish back, which was for more. */
        }
        return true;
    }
    if (upto <= pub->window.granted) {
        pub->window.wanted = upto; /* Who wished for more may have given up. */
    } else if (pub->window.wanted < upto ||
               (size < pub->window.need && pub->window.wanted != upto)) {
        tell_wish(pub, wish_of(pub, from, size));
    }
    pub->window.need = size;
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
    status = amb_outgoing_send(conn, &batch->out);
    if (__builtin_expect(status != AMB_OK && status != AMB_EAGAIN, 0) && !is_leased &&
        conn->again.is_on) {
        /* It has not left, and may in another session. */
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

static struct amb_batch *first_queued(const struct amb_pub *pub)
{
    return AMB_CONTAINER_OF(pub->queue.next, struct amb_batch, node);
}

/* Will a batch be ours after it was sent: because others are before it on the link, or because it
 * may have to be sent again? */
static bool would_stay(const struct amb_pub *pub)
{
    const struct amb_link *link = pub->conn->link;
    return pub->is_named || (link != NULL && link->queued != 0);
}

/* Sends a copy of the open batch that is as large as it must be; the open one goes on. */
static enum amb_status send_packed(struct amb_pub *pub, struct amb_batch *packed, uint64_t last)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = send_batch(pub, packed, last);
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
    if (!has_window(pub, amb_batch_size(batch))) {
        return AMB_EAGAIN;
    }
    uint64_t last = atomic_load_explicit(&pub->posted, memory_order_relaxed);
    if (!amb_list_is_empty(&pub->queue)) {
        last = first_queued(pub)->first_seq - 1;
    }
    if (would_stay(pub)) {
        struct amb_batch *packed = amb_batch_pack(conn, batch);
        if (packed != NULL) {
            return send_packed(pub, packed, last);
        }
    }
    amb_batch_charge(conn, batch); /* Before: the link may have given it back when it answers. */
    enum amb_status status = send_batch(pub, batch, last);
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

/* One message of a commit whose segment is of a session that is over: it goes out as a batch of its
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
    amb_batch_records(batch)[0] = (struct amb_record){.len = record->len};
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

/* A commit that will not leave; it is in no list any more. */
static void drop_commit(struct amb_pub *pub, struct amb_batch *batch)
{
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

/* The first batch of the queue, in pieces. ENOMEM: it is as it was. Memory of a GPU was the former
 * broker's and may be gone with it: nobody knows. */
static enum amb_status rescue(struct amb_pub *pub)
{
    struct amb_batch *commit = first_queued(pub);
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

/* What was put aside while the broker was away. */
static enum amb_status flush_held(struct amb_pub *pub)
{
    while (!amb_list_is_empty(&pub->away.held)) {
        struct amb_batch *batch = AMB_CONTAINER_OF(pub->away.held.next, struct amb_batch, node);
        uint64_t size = amb_batch_size(batch);
        if (!has_window(pub, size)) {
            return AMB_EAGAIN;
        }
        amb_list_remove(&batch->node);
        enum amb_status status = send_batch(pub, batch, batch->first_seq + batch->count - 1);
        if (status != AMB_OK && status != AMB_EAGAIN) {
            amb_list_push_front(&pub->away.held, &batch->node);
            return status;
        }
        pub->away.held_bytes -= size;
        if (status == AMB_OK && !pub->is_named) {
            amb_pub_batch_put(pub->conn, batch);
        }
    }
    return AMB_OK;
}

bool amb_pub_hold(struct amb_pub *pub)
{
    struct amb_batch *batch = pub->open;
    if (!pub->away.is_on || pub->away.refused != AMB_OK || batch == NULL || batch->count == 0 ||
        !amb_list_is_empty(&pub->queue) ||
        pub->away.held_bytes + amb_batch_size(batch) > pub->window.limit_bytes) {
        return false;
    }
    struct amb_batch *next = amb_pub_batch_get(pub->conn);
    if (next == NULL) {
        return false;
    }
    batch->first_seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) - batch->count + 1;
    pub->away.held_bytes += amb_batch_size(batch);
    amb_batch_charge(pub->conn, batch);
    amb_list_push_back(&pub->away.held, &batch->node);
    pub->open = next;
    return true;
}

/* Payloads that the broker cannot read where they lie, first in the queue, whose GPU has done its
 * part: they are transferred. What that GPU has spoilt is settled so, in its turn. EAGAIN: not yet;
 * ENOMEM. */
static enum amb_status transfer(struct amb_pub *pub, struct amb_batch *commit)
{
    if (commit->fences != NULL && !has_passed_fences(commit)) {
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

static enum amb_status flush_queue(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    while (!amb_list_is_empty(&pub->queue)) {
        struct amb_batch *batch = first_queued(pub);
        if (batch->is_leased && (batch->slots->is_over || batch->slots->is_private)) {
            if (transfer(pub, batch) != AMB_OK) {
                return AMB_EAGAIN;
            }
            continue;
        }
        if (batch->is_leased ? batch->fences != NULL && !has_passed_fences(batch)
                             : !has_window(pub, amb_batch_size(batch))) {
            return AMB_EAGAIN;
        }
        if (would_stay(pub)) {
            batch = amb_batch_pack_queued(conn, batch);
        }
        amb_list_remove(&batch->node);
        bool is_leased = batch->is_leased;
        enum amb_status status = send_batch(pub, batch, batch->first_seq + batch->count - 1);
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

void amb_pub_enqueue(struct amb_pub *pub, struct amb_batch *batch)
{
    pub->batch_msgs = 0;
    amb_list_push_back(&pub->queue, &batch->node);
}

/* Both locks held: there is something to send. */
static void gather_held(struct amb_pub *pub)
{
    pub->away.must_gather = false;
    if (atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&pub->conn->gathering, 1, memory_order_relaxed);
    } else {
        atomic_store_explicit(&pub->is_gathering, true, memory_order_relaxed);
    }
    atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
}

void amb_pub_queue_drop(struct amb_pub *pub)
{
    struct amb_list_node *node;
    while (!amb_list_is_empty(&pub->away.unacked)) {
        amb_pub_unkeep(pub, AMB_CONTAINER_OF(pub->away.unacked.next, struct amb_batch, node));
    }
    if (pub->away.must_gather) {
        pub->away.must_gather = false;
        atomic_fetch_sub_explicit(&pub->conn->gathering, 1, memory_order_relaxed);
    }
    while ((node = amb_list_pop_front(&pub->away.held)) != NULL) {
        amb_pub_batch_put(pub->conn, AMB_CONTAINER_OF(node, struct amb_batch, node));
    }
    pub->away.held_bytes = 0;
    while ((node = amb_list_pop_front(&pub->queue)) != NULL) {
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        drop_commit(pub, batch);
    }
}

/* The broker does not want it back: what waits is settled so. Both locks held. */
static void drop_refused(struct amb_pub *pub)
{
    if (pub->open != NULL) {
        amb_batch_reset(pub->open);
    }
    amb_pub_queue_drop(pub);
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

/* What a send has come to: a link that has just broken is another session's matter. */
static enum amb_status outcome(const struct amb_pub *pub, enum amb_status status)
{
    bool may_wait = pub->conn->again.is_on && amb_status_scope_of(status) == AMB_SCOPE_SESSION &&
                    !amb_conn_has_trouble(pub->conn, AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    return may_wait ? AMB_EAGAIN : status;
}

enum amb_status amb_pub_flush_open(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (__builtin_expect(pub->away.must_gather, 0)) {
        gather_held(pub);
    }
    if (!atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        return AMB_OK;
    }
    if (__builtin_expect(is_stuck(pub), 0)) {
        return why_stuck(pub);
    }
    uint64_t bytes = pub->open != NULL ? amb_batch_size(pub->open) : 0;
    enum amb_status status = flush_held(pub);
    if (status == AMB_OK) {
        status = flush_small(pub);
    }
    if (status == AMB_OK) {
        status = flush_queue(pub);
    }
    if (status != AMB_OK) {
        atomic_fetch_or_explicit(&pub->wary, AMB_WARY_HELD, memory_order_relaxed);
        return outcome(pub, status);
    }
    if ((atomic_load_explicit(&pub->wary, memory_order_relaxed) & AMB_WARY_HELD) != 0) {
        atomic_fetch_and_explicit(&pub->wary, ~AMB_WARY_HELD, memory_order_relaxed);
    }
    atomic_store_explicit(&pub->is_gathering, false, memory_order_relaxed);
    atomic_store_explicit(&pub->must_leave, false, memory_order_relaxed);
    atomic_fetch_sub_explicit(&conn->gathering, 1, memory_order_relaxed);
    amb_batch_rule_left(&pub->rule, bytes);
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
    if (!has_window(pub, amb_batch_size(large))) {
        return AMB_EAGAIN;
    }
    uint64_t seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
    struct amb_pub *lender = large->pub;
    pub->borrowed += lender != NULL;
    status = send_batch(pub, large, seq);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        pub->borrowed -= lender != NULL;
        return outcome(pub, status);
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
            continue; /* Who has the lock looks for itself. */
        }
        if (__builtin_expect(!amb_list_is_empty(&pub->away.held) || pub->away.must_gather, 0)) {
            left += amb_pub_flush_open(pub) == AMB_OK;
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
