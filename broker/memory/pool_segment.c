/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/pool_segment.h"

#include "broker/memory/bufpool.h"
#include "broker/memory/limbo.h"

static void segment_enter(struct amb_bufpool *pool, struct amb_segment *segment)
{
    amb_list_push_back(&pool->segments, &segment->node);
    segment->pool = pool;
    amb_segment_set_group(segment, pool->options.group);
    pool->segment_bytes += segment->size;
}

void amb_pool_segment_new(struct amb_bufpool *pool, struct amb_segment *segment)
{
    segment->fence = atomic_load_explicit(&pool->options.budget->fence, memory_order_relaxed);
    segment_enter(pool, segment);
}

bool amb_pool_segment_ask(struct amb_bufpool *pool, uint64_t bytes, bool is_dedicated)
{
    if (pool->options.make == NULL || !pool->options.make(pool, bytes, is_dedicated)) {
        return false;
    }
    *(is_dedicated ? &pool->is_making_dedicated : &pool->is_making) = true;
    return true;
}

enum amb_status amb_pool_segment_make(struct amb_bufpool *pool, uint64_t bytes,
                                      struct amb_segment **out)
{
    struct amb_membudget *budget = pool->options.budget;
    struct amb_segment *segment = NULL;
    uint64_t id = amb_membudget_next_id(budget);
    enum amb_status status = pool->options.create != NULL
                                 ? pool->options.create(id, bytes, &segment)
                                 : amb_segment_create(id, bytes, &segment);
    if (status == AMB_OK && pool->options.on_create != NULL) {
        status = pool->options.on_create(pool->options.arg, segment);
    }
    if (status != AMB_OK) {
        amb_segment_destroy(&segment);
        amb_membudget_give(budget, bytes);
        return status;
    }
    amb_pool_segment_new(pool, segment);
    pool->made_here++;
    *out = segment;
    return AMB_OK;
}

bool amb_pool_segment_reuse(struct amb_bufpool *pool, uint64_t least, uint64_t most,
                            struct amb_segment **out)
{
    const struct amb_trust_group *group = pool->options.group;
    /* Bytes that nobody may map lie in no segment that somebody has mapped. */
    struct amb_segment *segment = amb_trust_group_is_private(group)
                                      ? NULL
                                      : amb_limbo_reuse(pool->options.budget, group, least, most);
    if (segment == NULL) {
        return false;
    }
    if (pool->options.on_create != NULL &&
        pool->options.on_create(pool->options.arg, segment) != AMB_OK) {
        amb_limbo_drop(pool->options.budget, segment);
        return false;
    }
    segment_enter(pool, segment);
    *out = segment;
    return true;
}

void amb_pool_segment_unmake(struct amb_bufpool *pool, struct amb_segment *segment, bool later)
{
    uint64_t bytes = segment->size;
    if (pool->options.on_destroy != NULL) {
        pool->options.on_destroy(pool->options.arg, segment);
    }
    pool->segment_bytes -= bytes;
    if (later && pool->options.unmake != NULL) {
        amb_list_remove(&segment->node);
        pool->options.unmake(pool->options.arg, segment);
        return;
    }
    amb_limbo_drop(pool->options.budget, segment);
}

void amb_pool_extent_unmake(struct amb_bufpool *pool, struct amb_extent *extent, bool later)
{
    struct amb_segment *segment = extent->segment;
    amb_pageheap_remove(&pool->heap, extent);
    amb_pool_segment_unmake(pool, segment, later);
}
