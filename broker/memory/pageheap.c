/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/pageheap.h"

#include "broker/memory/sizeclass.h"
#include "wire/base/assert.h"

#include <stdlib.h>

/* Freed runs that stay unmerged: about the working depth of two topics, what a cache holds. */
#define QUICK_BYTES_MAX (UINT64_C(4) << 20)

static uint32_t index_of(const struct amb_page *page)
{
    return (uint32_t)(page - page->extent->page);
}

static void mark(struct amb_extent *extent, uint32_t first, uint32_t pages,
                 enum amb_run_state state)
{
    struct amb_page *head = &extent->page[first], *tail = &extent->page[first + pages - 1];
    head->extent = extent;
    head->pages = tail->pages = pages;
    head->state = tail->state = (uint8_t)state;
}

static void bin_insert(struct amb_pageheap *heap, struct amb_extent *extent, uint32_t first,
                       uint32_t pages)
{
    uint32_t cls = amb_sizeclass_within(pages);
    mark(extent, first, pages, AMB_RUN_FREE);
    amb_list_push_front(&heap->bins[cls], &extent->page[first].node);
    heap->bin_map[cls / 64] |= UINT64_C(1) << (cls % 64);
    heap->room += amb_pageheap_room(pages, AMB_ROOM_PAGES);
    heap->room_wide += amb_pageheap_room(pages, heap->wide);
}

static void bin_remove(struct amb_pageheap *heap, struct amb_page *page)
{
    uint32_t cls = amb_sizeclass_within(page->pages);
    amb_list_remove(&page->node);
    heap->room -= amb_pageheap_room(page->pages, AMB_ROOM_PAGES);
    heap->room_wide -= amb_pageheap_room(page->pages, heap->wide);
    if (amb_list_is_empty(&heap->bins[cls])) {
        heap->bin_map[cls / 64] &= ~(UINT64_C(1) << (cls % 64));
    }
}

void amb_pageheap_init(struct amb_pageheap *heap)
{
    *heap = (struct amb_pageheap){.wide = AMB_ROOM_PAGES};
    for (uint32_t i = 0; i < AMB_RUN_CLASSES; i++) {
        amb_list_init(&heap->bins[i]);
        amb_list_init(&heap->quick[i]);
    }
}

void amb_pageheap_set_wide(struct amb_pageheap *heap, uint32_t pages)
{
    heap->wide = pages < AMB_ROOM_PAGES ? AMB_ROOM_PAGES : pages;
    heap->room_wide = 0;
    for (uint32_t cls = 0; cls < AMB_RUN_CLASSES; cls++) {
        AMB_LIST_FOR_EACH (node, &heap->bins[cls]) {
            const struct amb_page *page = AMB_CONTAINER_OF(node, struct amb_page, node);
            heap->room_wide += amb_pageheap_room(page->pages, heap->wide);
        }
    }
}

enum amb_status amb_pageheap_add(struct amb_pageheap *heap, struct amb_segment *segment,
                                 struct amb_extent **out)
{
    uint64_t pages = segment->size / AMB_PAGE_SIZE;
    amb_assert(pages >= 1 && pages <= AMB_EXTENT_PAGES_MAX);
    struct amb_extent *extent = calloc(1, sizeof(*extent));
    if (extent == NULL) {
        return AMB_ENOMEM;
    }
    extent->page = calloc(pages, sizeof(*extent->page));
    extent->slabs = calloc(pages / AMB_SLAB_PAGES + 1, sizeof(*extent->slabs));
    if (extent->page == NULL || extent->slabs == NULL) {
        free(extent->page);
        free(extent->slabs);
        free(extent);
        return AMB_ENOMEM;
    }
    extent->segment = segment;
    extent->pages = (uint32_t)pages;
    bin_insert(heap, extent, 0, extent->pages);
    heap->pages += pages;
    *out = extent;
    return AMB_OK;
}

void amb_pageheap_remove(struct amb_pageheap *heap, struct amb_extent *extent)
{
    for (uint32_t i = 0; i < extent->pages; i += extent->page[i].pages) {
        struct amb_page *page = &extent->page[i];
        if (page->state == AMB_RUN_FREE) {
            bin_remove(heap, page);
        } else if (page->state == AMB_RUN_QUICK) {
            amb_list_remove(&page->node);
            heap->quick_bytes -= page->pages * AMB_PAGE_SIZE;
        }
    }
    heap->pages -= extent->pages;
    free(extent->page);
    free(extent->slabs);
    free(extent);
}

/* The first free run of the smallest bin from `cls` up: all in it are large enough. */
static struct amb_page *bin_find(const struct amb_pageheap *heap, uint32_t cls)
{
    uint32_t word = cls / 64;
    uint64_t map = heap->bin_map[word] & (~UINT64_C(0) << (cls % 64));
    if (map == 0 && word == 0) {
        word = 1;
        map = heap->bin_map[1];
    }
    if (map == 0) {
        return NULL;
    }
    const struct amb_list_node *bin = &heap->bins[word * 64 + (uint32_t)__builtin_ctzll(map)];
    return AMB_CONTAINER_OF(bin->next, struct amb_page, node);
}

bool amb_pageheap_cost(const struct amb_pageheap *heap, uint32_t cls, uint64_t *cost,
                       uint64_t *cost_wide)
{
    const struct amb_page *page = bin_find(heap, cls);
    if (page == NULL) {
        return false;
    }
    uint32_t rest = page->pages - (uint32_t)amb_sizeclass_units(cls);
    *cost =
        amb_pageheap_room(page->pages, AMB_ROOM_PAGES) - amb_pageheap_room(rest, AMB_ROOM_PAGES);
    *cost_wide = amb_pageheap_room(page->pages, heap->wide) - amb_pageheap_room(rest, heap->wide);
    return true;
}

bool amb_pageheap_alloc(struct amb_pageheap *heap, uint32_t cls, struct amb_extent **extent,
                        uint32_t *first)
{
    amb_assert(cls < AMB_RUN_CLASSES);
    uint32_t want = (uint32_t)amb_sizeclass_units(cls);
    struct amb_page *page = NULL;
    struct amb_list_node *node = amb_list_pop_front(&heap->quick[cls]);
    if (node != NULL) {
        page = AMB_CONTAINER_OF(node, struct amb_page, node);
        heap->quick_bytes -= want * AMB_PAGE_SIZE;
    } else {
        page = bin_find(heap, cls);
        if (page == NULL && heap->quick_bytes > 0) {
            amb_pageheap_merge(heap);
            page = bin_find(heap, cls);
        }
        if (page == NULL) {
            return false;
        }
        bin_remove(heap, page);
    }

    struct amb_extent *from = page->extent;
    uint32_t at = index_of(page), have = page->pages;
    amb_assert(have >= want);
    if (have > want) {
        bin_insert(heap, from, at + want, have - want);
    }
    mark(from, at, want, AMB_RUN_USED);
    from->used_pages += want;
    heap->used_pages += want;
    *extent = from;
    *first = at;
    return true;
}

/* Joins a run that is in no list with its free neighbours, and bins the whole. */
static void merge_run(struct amb_pageheap *heap, struct amb_extent *extent, uint32_t first)
{
    uint32_t pages = extent->page[first].pages;
    if (first > 0 && extent->page[first - 1].state == AMB_RUN_FREE) {
        uint32_t before = extent->page[first - 1].pages;
        first -= before;
        pages += before;
        bin_remove(heap, &extent->page[first]);
    }
    uint32_t next = first + pages;
    if (next < extent->pages && extent->page[next].state == AMB_RUN_FREE) {
        pages += extent->page[next].pages;
        bin_remove(heap, &extent->page[next]);
    }
    bin_insert(heap, extent, first, pages);
}

void amb_pageheap_merge(struct amb_pageheap *heap)
{
    for (uint32_t cls = 0; cls < AMB_RUN_CLASSES && heap->quick_bytes > 0; cls++) {
        struct amb_list_node *node;
        while ((node = amb_list_pop_front(&heap->quick[cls])) != NULL) {
            struct amb_page *page = AMB_CONTAINER_OF(node, struct amb_page, node);
            heap->quick_bytes -= page->pages * AMB_PAGE_SIZE;
            merge_run(heap, page->extent, index_of(page));
        }
    }
    amb_assert(heap->quick_bytes == 0);
}

void amb_pageheap_cut(struct amb_extent *extent, uint32_t first, uint32_t keep)
{
    uint32_t pages = extent->page[first].pages;
    amb_assert(extent->page[first].state == AMB_RUN_USED && keep > 0 && keep < pages);
    mark(extent, first, keep, AMB_RUN_USED);
    mark(extent, first + keep, pages - keep, AMB_RUN_USED);
}

void amb_pageheap_free(struct amb_pageheap *heap, struct amb_extent *extent, uint32_t first)
{
    amb_assert(first < extent->pages);
    struct amb_page *page = &extent->page[first];
    uint32_t pages = page->pages;
    amb_assert(page->state == AMB_RUN_USED && pages <= extent->used_pages);
    extent->used_pages -= pages;
    heap->used_pages -= pages;
    uint32_t cls = amb_sizeclass_of(pages);
    if (amb_sizeclass_units(cls) != pages) { /* The rest of one that was cut. */
        merge_run(heap, extent, first);
        return;
    }
    mark(extent, first, pages, AMB_RUN_QUICK);
    amb_list_push_front(&heap->quick[cls], &page->node);
    heap->quick_bytes += pages * AMB_PAGE_SIZE;
    if (heap->quick_bytes > QUICK_BYTES_MAX) {
        amb_pageheap_merge(heap);
    }
}

void amb_pageheap_check(const struct amb_pageheap *heap, const struct amb_extent *extent,
                        uint64_t *quick_bytes, uint64_t *room)
{
    uint32_t used = 0, i = 0;
    bool was_free = false;
    while (i < extent->pages) {
        const struct amb_page *page = &extent->page[i];
        amb_assert(page->pages >= 1 && page->pages <= extent->pages - i);
        const struct amb_page *last = page + page->pages - 1;
        amb_assert(last->pages == page->pages && last->state == page->state);
        amb_assert(page->extent == extent);
        bool is_free = page->state == AMB_RUN_FREE;
        amb_assert(!(is_free && was_free)); /* Neighbours are merged. */
        if (is_free) {
            uint32_t cls = amb_sizeclass_within(page->pages);
            amb_assert((heap->bin_map[cls / 64] >> (cls % 64) & 1) != 0);
            *room += amb_pageheap_room(page->pages, AMB_ROOM_PAGES);
            amb_assert(page->node.next != &page->node);
        } else if (page->state == AMB_RUN_QUICK) {
            amb_assert(page->node.next != &page->node);
            *quick_bytes += page->pages * AMB_PAGE_SIZE;
        } else {
            amb_assert(page->state == AMB_RUN_USED);
            used += page->pages;
        }
        was_free = is_free;
        i += page->pages;
    }
    amb_assert(i == extent->pages && used == extent->used_pages);
}
