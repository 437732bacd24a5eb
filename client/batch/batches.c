/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/batches.h"

#include "client/memory/slots.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define BATCHES_CACHED_MAX 64u
#define LARGES_CACHED_MAX 1024u /* small, and as many as private leases may be on their way */
#define PACKED_CACHED_MAX (UINT64_C(4) << 20)
/* What fills less than one part in so many of its memory is packed. */
#define PACK_PART 4u
/* The smallest block of amb_buffers is 512 bytes, and each is a power of two. */
#define BLOCK_MIN UINT64_C(512)

void amb_batches_init(struct amb_conn *conn, uint64_t max)
{
    amb_list_init(&conn->batches);
    amb_list_init(&conn->larges);
    amb_list_init(&conn->commits);
    amb_buffers_init(&conn->packed, UINT64_MAX / 2); /* out_max is the limit. */
    conn->packed.cached_max = PACKED_CACHED_MAX;
    conn->out_max = max;
}

static void free_all(struct amb_list_node *list)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(list)) != NULL) {
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        amb_batch_destroy(&batch);
    }
}

void amb_batches_fini(struct amb_conn *conn)
{
    free_all(&conn->batches);
    free_all(&conn->larges);
    free_all(&conn->commits);
    conn->batches_cached = conn->larges_cached = conn->commits_cached = 0;
    amb_buffers_fini(&conn->packed);
}

/* ---- what they hold ---- */

/* Written under the connection's lock alone, so a load and a store will do. */
static void count(struct amb_conn *conn, uint64_t more, uint64_t less)
{
    uint64_t bytes = atomic_load_explicit(&conn->out_bytes, memory_order_relaxed);
    amb_assert(bytes >= less);
    atomic_store_explicit(&conn->out_bytes, bytes + more - less, memory_order_relaxed);
}

void amb_batch_charge(struct amb_conn *conn, struct amb_batch *batch)
{
    amb_assert(batch->charged == 0);
    batch->charged = amb_batch_whole(batch);
    count(conn, batch->charged, 0);
}

void amb_batch_discharge(struct amb_conn *conn, struct amb_batch *batch)
{
    count(conn, 0, batch->charged);
    batch->charged = 0;
}

bool amb_batches_have_room(const struct amb_conn *conn, uint64_t bytes)
{
    uint64_t held = atomic_load_explicit(&conn->out_bytes, memory_order_relaxed);
    return held == 0 || held + bytes <= conn->out_max;
}

uint64_t amb_batches_large(uint64_t owned)
{
    return owned + sizeof(struct amb_batch) + 2 * (uint64_t)AMB_PROPS_MAX;
}

/* ---- life ---- */

struct amb_batch *amb_pub_batch_get(struct amb_conn *conn)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->batches)) != NULL) {
        conn->batches_cached--;
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        if (batch->data_cap == conn->batch_bytes) {
            return batch;
        }
        amb_batch_destroy(&batch); /* Of a session with another limit. */
    }
    return amb_batch_create(conn->batch_bytes);
}

struct amb_batch *amb_pub_large_get(struct amb_conn *conn, uint64_t owned)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->larges);
    struct amb_batch *batch = NULL;
    if (node != NULL) {
        conn->larges_cached--;
        batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
    } else {
        batch = amb_batch_create_large();
    }
    if (batch != NULL) {
        batch->owned_len = owned;
        amb_batch_charge(conn, batch);
    }
    return batch;
}

struct amb_batch *amb_pub_commit_get(struct amb_conn *conn)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->commits);
    struct amb_batch *batch = NULL;
    if (node != NULL) {
        conn->commits_cached--;
        batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
    } else {
        batch = amb_batch_create_leased();
    }
    if (batch != NULL) {
        amb_batch_charge(conn, batch);
    }
    return batch;
}

/* What it holds of others'. */
static void let_go(struct amb_conn *conn, struct amb_batch *batch)
{
    if (batch->place.slots != NULL) {
        amb_place_return(&batch->place);
        batch->place.slots = NULL;
    }
    if (batch->is_pooled) {
        amb_buffers_put(&conn->lease_buffers, batch->owned, batch->owned_len);
        batch->owned = NULL;
        batch->is_pooled = false;
        amb_leases_wake(conn);
    }
}

void amb_pub_batch_put(struct amb_conn *conn, struct amb_batch *batch)
{
    if (batch == NULL) {
        return;
    }
    amb_batch_discharge(conn, batch);
    if (batch->is_packed) {
        amb_buffers_put(&conn->packed, batch, batch->owned_len);
        return;
    }
    let_go(conn, batch);
    struct amb_list_node *list = &conn->batches;
    uint32_t *cached = &conn->batches_cached;
    uint32_t max = BATCHES_CACHED_MAX;
    bool is_of_use = true;
    if (batch->is_large) {
        list = &conn->larges;
        cached = &conn->larges_cached;
        max = LARGES_CACHED_MAX;
    } else if (batch->is_leased) {
        list = &conn->commits;
        cached = &conn->commits_cached;
    } else {
        is_of_use = batch->data_cap == conn->batch_bytes;
    }
    if (*cached >= max || !is_of_use) {
        amb_batch_destroy(&batch);
        return;
    }
    amb_batch_reset(batch);
    amb_list_push_front(list, &batch->node);
    ++*cached;
}

/* ---- packing ---- */

/* The block that a copy takes. */
static uint64_t block_of(uint64_t size)
{
    return size <= BLOCK_MIN ? BLOCK_MIN : UINT64_C(1) << (64 - __builtin_clzll(size - 1));
}

static bool pays(const struct amb_batch *batch)
{
    return !batch->is_packed && !batch->is_large && batch->fences == NULL &&
           block_of(amb_batch_copy_size(batch)) < amb_batch_whole(batch) / PACK_PART;
}

struct amb_batch *amb_batch_pack(struct amb_conn *conn, struct amb_batch *batch)
{
    if (!pays(batch)) {
        return NULL;
    }
    uint64_t block = block_of(amb_batch_copy_size(batch));
    void *room = amb_buffers_get(&conn->packed, block);
    if (room == NULL) {
        return NULL;
    }
    struct amb_batch *copy = amb_batch_copy(batch, room);
    copy->owned_len = block;
    amb_batch_charge(conn, copy);
    return copy;
}

struct amb_batch *amb_batch_pack_queued(struct amb_conn *conn, struct amb_batch *batch)
{
    struct amb_batch *copy = amb_batch_pack(conn, batch);
    if (copy == NULL) {
        return batch;
    }
    amb_list_push_front(&batch->node, &copy->node); /* Behind it; then it leaves. */
    amb_list_remove(&batch->node);
    amb_pub_batch_put(conn, batch);
    return copy;
}
