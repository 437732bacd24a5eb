/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/bufpool_check.h"

#include "broker/memory/bufpool.h"

#include "broker/memory/slab.h"
#include "wire/base/assert.h"

void amb_bufpool_check(const struct amb_bufpool *pool)
{
    uint64_t bytes = 0, used = 0, quick = 0, pages = 0, room = 0;
    uint32_t cached = 0, live = 0, sparse = 0;
    AMB_LIST_FOR_EACH (node, &pool->segments) {
        const struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        const struct amb_extent *extent = segment->pool_data;
        amb_assert(extent->segment == segment);
        bytes += segment->size;
        if (extent->pages == 0) {
            used += extent->is_out ? segment->size : 0;
            cached += extent->is_out ? 0 : 1;
            continue;
        }
        amb_pageheap_check(&pool->heap, extent, &quick, &room);
        pages += extent->used_pages;
        used += extent->used_pages * AMB_PAGE_SIZE - check_slabs(extent, &live, &sparse);
    }
    amb_assert(bytes == pool->segment_bytes && used == pool->used);
    amb_assert(pages == pool->heap.used_pages && room == pool->heap.room);
    amb_assert(live == pool->live_slabs && sparse == pool->sparse_slabs);
    amb_assert(cached == pool->cached + (pool->fresh != NULL) && quick == pool->heap.quick_bytes);
    amb_assert(atomic_load_explicit(&pool->options.budget->used, memory_order_relaxed) >= bytes);
}
