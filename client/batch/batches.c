/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/batches.h"

#include "client/memory/keep.h"
#include "client/memory/slots.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define BATCHES_CACHED_MAX 64u
#define LARGES_CACHED_MAX 1024u /* small, and as many as private leases may be on their way */
#define PACKED_CACHED_MAX (UINT64_C(4) << 20)
/* A batch that uses less than one part in so many of its memory is packed. */
#define PACK_PART 4u
/* The smallest block of amb_buffers is 512 bytes, and each is a power of two. */
#define BLOCK_MIN UINT64_C(512)

void amb_batches_init(struct amb_conn *conn, uint64_t max)
{
    amb_list_init(&conn->batches.plain.list);
    amb_list_init(&conn->batches.large.list);
    amb_list_init(&conn->batches.commits.list);
    amb_list_init(&conn->batches.written);
    amb_buffers_init(&conn->batches.packed, UINT64_MAX / 2); /* bytes_max is the limit. */
    conn->batches.packed.cached_max = PACKED_CACHED_MAX;
    conn->batches.bytes_max = max;
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
    free_all(&conn->batches.plain.list);
    free_all(&conn->batches.large.list);
    free_all(&conn->batches.commits.list);
    conn->batches.plain.count = conn->batches.large.count = conn->batches.commits.count = 0;
    amb_buffers_fini(&conn->batches.packed);
}

/* ---- what they hold ---- */

/* Written under the connection's lock alone, so a load and a store will do. */
static void count(struct amb_conn *conn, uint64_t more, uint64_t less)
{
    uint64_t bytes = atomic_load_explicit(&conn->batches.bytes, memory_order_relaxed);
    amb_assert(bytes >= less);
    atomic_store_explicit(&conn->batches.bytes, bytes + more - less, memory_order_relaxed);
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
    uint64_t held = atomic_load_explicit(&conn->batches.bytes, memory_order_relaxed);
    return held == 0 || held + bytes <= conn->batches.bytes_max;
}

uint64_t amb_batches_large(uint64_t owned)
{
    return owned + sizeof(struct amb_batch) + 2 * (uint64_t)AMB_PROPS_MAX;
}

/* ---- life ---- */

struct amb_batch *amb_pub_batch_get(struct amb_conn *conn)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&conn->batches.plain.list)) != NULL) {
        conn->batches.plain.count--;
        struct amb_batch *batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
        if (batch->data_cap == conn->session.batch_bytes) {
            return batch;
        }
        amb_batch_destroy(&batch); /* Of a session with another limit. */
    }
    return amb_batch_create(conn->session.batch_bytes);
}

struct amb_batch *amb_pub_large_get(struct amb_conn *conn, uint64_t owned)
{
    struct amb_list_node *node = amb_list_pop_front(&conn->batches.large.list);
    struct amb_batch *batch = NULL;
    if (node != NULL) {
        conn->batches.large.count--;
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
    struct amb_list_node *node = amb_list_pop_front(&conn->batches.commits.list);
    struct amb_batch *batch = NULL;
    if (node != NULL) {
        conn->batches.commits.count--;
        batch = AMB_CONTAINER_OF(node, struct amb_batch, node);
    } else {
        batch = amb_batch_create_leased();
    }
    if (batch != NULL) {
        amb_batch_charge(conn, batch);
    }
    return batch;
}

/* Memory of others that it holds. */
static void let_go(struct amb_conn *conn, struct amb_batch *batch)
{
    if (batch->place.slots != NULL) {
        amb_place_return(&batch->place);
        batch->place.slots = NULL;
    }
    if (batch->is_pooled) {
        amb_keep_return(conn, batch->keep, batch->owned, batch->owned_len);
        batch->owned = NULL;
        batch->keep = NULL;
        batch->is_pooled = false;
    }
}

void amb_pub_batch_put(struct amb_conn *conn, struct amb_batch *batch)
{
    if (batch == NULL) {
        return;
    }
    amb_batch_discharge(conn, batch);
    if (batch->is_packed) {
        amb_buffers_put(&conn->batches.packed, batch, batch->owned_len);
        return;
    }
    let_go(conn, batch);
    struct amb_list_node *list = &conn->batches.plain.list;
    uint32_t *cached = &conn->batches.plain.count;
    uint32_t max = BATCHES_CACHED_MAX;
    bool is_of_use = true;
    if (batch->is_large) {
        list = &conn->batches.large.list;
        cached = &conn->batches.large.count;
        max = LARGES_CACHED_MAX;
    } else if (batch->is_leased) {
        list = &conn->batches.commits.list;
        cached = &conn->batches.commits.count;
    } else {
        is_of_use = batch->data_cap == conn->session.batch_bytes;
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
    void *room = amb_buffers_get(&conn->batches.packed, block);
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
