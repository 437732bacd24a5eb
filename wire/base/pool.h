/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed-size objects with a LIFO free list. They are allocated in chunks, and given back to the
 * heap only at fini: after warm-up neither get nor put allocates.
 * Threads: owner only. Memory: chunks of `chunk` objects, at most `max` objects in all.
 */
#pragma once

#include <stddef.h>

struct amb_pool {
    size_t object_size, chunk, max;
    size_t total; /* objects ever allocated */
    size_t used;  /* objects out */
    void *free_list;
    void *chunks;
};

/* object_size is rounded up to 64 B; max 0: no limit. Allocates nothing yet. */
void amb_pool_init(struct amb_pool *pool, size_t object_size, size_t chunk, size_t max);
/* All objects must be back, or be no longer used by anybody. */
void amb_pool_fini(struct amb_pool *pool);
/* Zeroed object, 64 B aligned; NULL at the maximum or without memory. */
void *amb_pool_get(struct amb_pool *pool);
/* NULL is allowed. */
void amb_pool_put(struct amb_pool *pool, void *object);
