/* SPDX-License-Identifier: Apache-2.0 */
/* Receives into a pool of its own: 64 slots of 1 MiB. */
#include <amb/amb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SLOTS = 64
};
#define SLOT_BYTES ((size_t)1 << 20)

struct pool {
    char *base;
    atomic_uint_fast64_t free_slots; /* one bit each */
};

static void *pool_alloc(void *ctx, size_t len, size_t align, int device)
{
    (void)align;
    (void)device;
    struct pool *pool = ctx;
    uint_fast64_t bits = atomic_load(&pool->free_slots);
    while (len <= SLOT_BYTES && bits != 0) {
        if (atomic_compare_exchange_weak(&pool->free_slots, &bits, bits & (bits - 1))) {
            return pool->base + (size_t)__builtin_ctzll(bits) * SLOT_BYTES;
        }
    }
    return NULL; /* Back-pressure: asked again after the next free. */
}

static void pool_free(void *ctx, void *ptr, size_t len, int device)
{
    (void)len;
    (void)device;
    struct pool *pool = ctx;
    size_t slot = (size_t)((char *)ptr - pool->base) / SLOT_BYTES;
    atomic_fetch_or(&pool->free_slots, (uint_fast64_t)1 << slot);
}

int main(void)
{
    struct pool pool = {.base = aligned_alloc(4096, SLOTS * SLOT_BYTES), .free_slots = UINT64_MAX};
    struct amb_conn *conn;
    struct amb_region *region;
    struct amb_sub *sub;
    struct amb_msg *msg;
    if (pool.base == NULL || amb_connect(NULL, NULL, &conn) != AMB_OK ||
        amb_register(conn, pool.base, SLOTS * SLOT_BYTES, &region) != AMB_OK) {
        return 1;
    }
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    allocator.mem = AMB_MEM_HOST;
    allocator.alloc = pool_alloc;
    allocator.free = pool_free;
    allocator.ctx = &pool;
    if (amb_subscribe(conn, "frames", AMB_SUB(.allocator = &allocator), &sub) != AMB_OK) {
        return 1;
    }
    while (amb_next(sub, 3 * AMB_SEC, &msg) == AMB_OK) {
        const char *data = amb_msg_data(msg);
        printf("%zu bytes in slot %td\n", amb_msg_size(msg),
               (data - pool.base) / (ptrdiff_t)SLOT_BYTES);
        (void)fflush(stdout);
        amb_msg_release(msg); /* Calls pool_free. */
    }
    amb_sub_close(sub, AMB_SEC);
    /* AMB_ETIMEDOUT while a message still lies there. */
    enum amb_status status = amb_unregister(region, AMB_SEC);
    amb_close(conn, AMB_SEC);
    if (status == AMB_OK) {
        free(pool.base);
    }
    return status != AMB_OK;
}
