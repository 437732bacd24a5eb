/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/dedicated.h"

#include "broker/memory/bufpool.h"

#include <stdlib.h>

static struct amb_extent *cache_take(struct amb_bufpool *pool, uint32_t i)
{
    struct amb_extent *extent = pool->cache[i];
    for (pool->cached--; i < pool->cached; i++) {
        pool->cache[i] = pool->cache[i + 1];
    }
    return extent;
}

void amb_dedicated_drop(struct amb_bufpool *pool, bool later)
{
    amb_pool_extent_unmake(pool, cache_take(pool, 0), later);
}

bool amb_dedicated_charge(struct amb_bufpool *pool, uint64_t bytes)
{
    while (!amb_membudget_take(pool->options.budget, bytes)) {
        if (pool->cached == 0) {
            return false;
        }
        amb_dedicated_drop(pool, false);
    }
    return true;
}

static void dedicated_give_out(struct amb_extent *extent, struct amb_buf *out)
{
    extent->is_out = true;
    *out = (struct amb_buf){.data = extent->segment->base,
                            .segment = extent->segment,
                            .cap = extent->segment->size,
                            .cls = AMB_BUF_DEDICATED};
}

/* A segment twice as large would waste too much. */
static bool dedicated_fits(const struct amb_extent *extent, uint64_t bytes)
{
    uint64_t size = extent->segment->size;
    return size >= bytes && size / 2 <= bytes;
}

/* A dedicated segment that is there already. */
static bool dedicated_cached(struct amb_bufpool *pool, uint64_t len, enum amb_claim claim,
                             struct amb_buf *out)
{
    uint64_t bytes = amb_pool_round_up(len, AMB_SEGMENT_ALIGN);
    if (claim == AMB_CLAIM_LATER && pool->fresh != NULL && dedicated_fits(pool->fresh, bytes)) {
        dedicated_give_out(pool->fresh, out);
        pool->fresh = NULL;
        return true;
    }
    /* The newest first: its pages are warm. */
    for (uint32_t i = pool->cached; i-- > 0;) {
        if (dedicated_fits(pool->cache[i], bytes)) {
            dedicated_give_out(cache_take(pool, i), out);
            return true;
        }
    }
    return false;
}

static enum amb_status dedicated_make(struct amb_bufpool *pool, uint64_t bytes,
                                      enum amb_claim claim, struct amb_extent **out)
{
    struct amb_extent *extent = calloc(1, sizeof(*extent));
    if (extent == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status;
    if (amb_pool_segment_reuse(pool, bytes, 2 * bytes, &extent->segment)) {
        status = AMB_OK; /* That is charged already. */
    } else if (!amb_dedicated_charge(pool, bytes)) {
        status = AMB_ENOMEM;
    } else if (claim == AMB_CLAIM_LATER && amb_pool_segment_ask(pool, bytes, true)) {
        status = AMB_EAGAIN;
    } else {
        status = amb_pool_segment_make(pool, bytes, &extent->segment);
    }
    if (status != AMB_OK) {
        free(extent);
        return status;
    }
    extent->segment->pool_data = extent;
    *out = extent;
    return AMB_OK;
}

enum amb_status amb_dedicated_alloc(struct amb_bufpool *pool, uint64_t len, enum amb_claim claim,
                                    struct amb_buf *out)
{
    if (len > pool->options.budget->max) {
        return AMB_ENOMEM;
    }
    if (dedicated_cached(pool, len, claim, out)) {
        return AMB_OK;
    }
    if (claim == AMB_CLAIM_LATER && pool->is_making_dedicated) {
        return AMB_EAGAIN;
    }
    struct amb_extent *extent;
    enum amb_status status =
        dedicated_make(pool, amb_pool_round_up(len, AMB_SEGMENT_ALIGN), claim, &extent);
    if (status == AMB_OK) {
        dedicated_give_out(extent, out);
    }
    return status;
}

void amb_dedicated_free(struct amb_bufpool *pool, struct amb_extent *extent)
{
    amb_assert(extent->pages == 0 && extent->is_out);
    extent->is_out = false;
    while (pool->cached >= pool->options.dedicated_cache) {
        amb_dedicated_drop(pool, true);
    }
    pool->cache[pool->cached++] = extent;
}

void amb_dedicated_adopt(struct amb_bufpool *pool, struct amb_segment *segment)
{
    struct amb_extent *extent = calloc(1, sizeof(*extent));
    if (extent == NULL) {
        amb_pool_segment_unmake(pool, segment, true);
        return;
    }
    extent->segment = segment;
    segment->pool_data = extent;
    amb_dedicated_served(pool);
    pool->fresh = extent;
    if (pool->options.has_fresh != NULL) {
        *pool->options.has_fresh = true;
    }
}

void amb_dedicated_served(struct amb_bufpool *pool)
{
    if (pool->fresh == NULL) {
        return;
    }
    if (pool->cached == AMB_DEDICATED_CACHE_MAX) {
        amb_dedicated_drop(pool, true);
    }
    pool->cache[pool->cached++] = pool->fresh;
    pool->fresh = NULL;
}
