/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/bufpool_retire.h"

#include "broker/memory/dedicated.h"

/* A copied head: its list has it in place of the former one, which is empty. */
static void list_move(struct amb_list_node *from, struct amb_list_node *to)
{
    if (amb_list_is_empty(from)) {
        amb_list_init(to);
        return;
    }
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    amb_list_init(from);
}

static void heap_move(struct amb_pageheap *from, struct amb_pageheap *to)
{
    for (uint32_t i = 0; i < AMB_RUN_CLASSES; i++) {
        list_move(&from->bins[i], &to->bins[i]);
        list_move(&from->quick[i], &to->quick[i]);
    }
    uint32_t wide = from->wide;
    amb_pageheap_init(from);
    amb_pageheap_set_wide(from, wide);
}

void amb_bufpool_retire(struct amb_bufpool *pool, struct amb_bufpool *out)
{
    *out = *pool;
    list_move(&pool->segments, &out->segments);
    for (uint32_t i = 0; i < AMB_SMALL_CLASSES; i++) {
        list_move(&pool->slabs[i], &out->slabs[i]);
    }
    heap_move(&pool->heap, &out->heap);
    out->options.group = &amb_trust_group_private;
    out->options.spare = 0;
    out->reserved = out->reserved_wide = out->made_here = 0;
    out->is_making = out->is_making_dedicated = false;
    AMB_LIST_FOR_EACH (node, &out->segments) {
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        segment->pool = out;
        amb_segment_set_group(segment, &amb_trust_group_private);
    }
    pool->used = pool->segment_bytes = 0;
    pool->live_slabs = pool->sparse_slabs = pool->cached = 0;
    pool->fresh = NULL;
    amb_dedicated_served(out);
}
