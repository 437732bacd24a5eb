/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk is one allocation: a 64 B header, then its objects. A free object's first word is the
 * link of the free list. AddressSanitizer poisons the rest of it, so use after put is caught as use
 * after free would be.
 */
#include "wire/base/pool.h"
#include "wire/base/assert.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define POOL_ASAN 1
#endif

#ifdef POOL_ASAN
#include <sanitizer/asan_interface.h>
#define pool_poison(ptr, size) __asan_poison_memory_region((ptr), (size))
#define pool_unpoison(ptr, size) __asan_unpoison_memory_region((ptr), (size))
#else
#define pool_poison(ptr, size) ((void)(ptr), (void)(size))
#define pool_unpoison(ptr, size) ((void)(ptr), (void)(size))
#endif

#define POOL_ALIGN 64u

struct pool_link {
    struct pool_link *next;
};

struct pool_chunk {
    struct pool_chunk *next;
    size_t size; /* of the whole allocation */
};

_Static_assert(sizeof(struct pool_chunk) <= POOL_ALIGN, "a chunk's header is one line");

static void push_free(struct amb_pool *pool, void *object)
{
    struct pool_link *link = object;
    link->next = pool->free_list;
    pool->free_list = link;
    pool_poison((char *)object + sizeof(*link), pool->object_size - sizeof(*link));
}

void amb_pool_init(struct amb_pool *pool, size_t object_size, size_t chunk, size_t max)
{
    amb_assert(object_size > 0 && object_size < SIZE_MAX / 2 && chunk > 0);
    *pool = (struct amb_pool){
        .object_size = (object_size + POOL_ALIGN - 1) & ~(size_t)(POOL_ALIGN - 1),
        .chunk = chunk,
        .max = max,
    };
}

void amb_pool_fini(struct amb_pool *pool)
{
    struct pool_chunk *chunk = pool->chunks;
    while (chunk != NULL) {
        struct pool_chunk *next = chunk->next;
        pool_unpoison(chunk, chunk->size);
        free(chunk);
        chunk = next;
    }
    pool->chunks = NULL;
    pool->free_list = NULL;
    pool->total = 0;
    pool->used = 0;
}

/* Slow path: one more chunk on the free list. False at the maximum or without memory. */
static bool grow(struct amb_pool *pool)
{
    size_t count = pool->chunk;
    if (pool->max != 0 && pool->max - pool->total < count) {
        count = pool->max - pool->total;
    }
    if (count == 0 || count > (SIZE_MAX - POOL_ALIGN) / pool->object_size) {
        return false;
    }
    size_t size = POOL_ALIGN + count * pool->object_size;
    struct pool_chunk *chunk = aligned_alloc(POOL_ALIGN, size);
    if (chunk == NULL) {
        return false;
    }
    chunk->next = pool->chunks;
    chunk->size = size;
    pool->chunks = chunk;
    /* Backwards, so that the first objects handed out are the first in memory. */
    for (size_t i = count; i > 0; i--) {
        push_free(pool, (char *)chunk + POOL_ALIGN + (i - 1) * pool->object_size);
    }
    pool->total += count;
    return true;
}

void *amb_pool_get(struct amb_pool *pool)
{
    if (pool->free_list == NULL && !grow(pool)) {
        return NULL;
    }
    struct pool_link *link = pool->free_list;
    pool->free_list = link->next;
    pool->used++;
    pool_unpoison(link, pool->object_size);
    return memset(link, 0, pool->object_size);
}

void amb_pool_put(struct amb_pool *pool, void *object)
{
    if (object == NULL) {
        return;
    }
    amb_assert(pool->used > 0);
    pool->used--;
    push_free(pool, object);
}
