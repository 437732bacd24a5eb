/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of pages out of the segments of one bufpool.
 *
 *      alloc(class) ──► quick list of the class ──► smallest free run that fits, split ──► false
 *      free ──────────► quick list of the class; past QUICK_BYTES_MAX all of them are merged
 *      cut ───────────► two used runs; the second is merged when it is freed, if it is of no class
 *
 * Quick lists hand the run that was freed last to the next request of its class, while it is still
 * in the cache. Each run is merged at most once per free, so both calls are O(1) amortised.
 *
 * Boundaries are kept in a table beside the segment, an entry per page. Of a run only the entries
 * of its first and last page mean anything. Readers map the segment, and see payloads only.
 *
 *      page:   [ USED 4 . . 4 ][ QUICK 5 . . . 5 ][ FREE 3 . 3 ]
 *
 * Threads: owner worker. Memory: one table per segment, allocated with it.
 */
#pragma once

#include "broker/memory/segment.h"
#include "broker/memory/sizeclass.h"

#include <stdbool.h>

#define AMB_PAGE_SIZE UINT64_C(4096)
#define AMB_RUN_CLASSES 96u /* the last one holds runs of 64 GiB */
#define AMB_EXTENT_PAGES_MAX (1u << 24)
#define AMB_SLAB_PAGES 16u
#define AMB_SLAB_WORDS 16u
#define AMB_ROOM_PAGES 20u /* of a full batch, and more than of a slab */

enum amb_run_state {
    AMB_RUN_INNER = 0, /* never looked at */
    AMB_RUN_FREE,      /* in a bin, merged with its neighbours */
    AMB_RUN_QUICK,     /* in a quick list, for its own class only */
    AMB_RUN_USED,
};

struct amb_extent;

struct amb_page {
    struct amb_list_node node;
    struct amb_extent *extent;
    uint32_t pages; /* of the run: valid at its first and last page */
    uint8_t state;  /* the same */
};

/* One run of AMB_SLAB_PAGES, cut into objects of one class. */
struct amb_slab {
    struct amb_list_node node; /* in the class's list while it has room */
    struct amb_extent *extent;
    uint32_t first; /* page */
    uint16_t cls, used;
    bool is_live;
    uint64_t free_map[AMB_SLAB_WORDS];
};

/* A segment as its pool sees it, with its pages; segment->pool_data. */
struct amb_extent {
    struct amb_segment *segment;
    uint32_t pages, used_pages; /* pages 0: dedicated to one allocation */
    bool is_out;                /* dedicated: allocated, else cached */
    struct amb_page *page;
    /* Slab of the run that starts at page p: [p / AMB_SLAB_PAGES]. Two disjoint runs of that length
     * never share an index. */
    struct amb_slab *slabs;
};

struct amb_pageheap {
    struct amb_list_node bins[AMB_RUN_CLASSES];  /* free runs of at least the class's pages */
    struct amb_list_node quick[AMB_RUN_CLASSES]; /* of exactly those */
    uint64_t bin_map[2];                         /* bins that are not empty */
    uint64_t quick_bytes;
    uint64_t pages, used_pages; /* of all extents */
    /*
     * The pages that allocations of up to AMB_ROOM_PAGES pages each, one after the other, can have
     * for certain. Of each binned run that is all but AMB_ROOM_PAGES - 1 pages. And the same of up
     * to `wide` pages each.
     */
    uint64_t room, room_wide;
    uint32_t wide;
};

/* Pages of a run that allocations of up to `largest` each can have for certain. */
static inline uint64_t amb_pageheap_room(uint32_t pages, uint32_t largest)
{
    return pages >= largest ? pages - largest + 1 : 0;
}

/* The class of a run that holds so many bytes; of 0 bytes: the smallest. */
static inline uint32_t amb_pageheap_class_of(uint64_t len)
{
    return amb_sizeclass_of(len == 0 ? 1 : (len - 1) / AMB_PAGE_SIZE + 1);
}

void amb_pageheap_init(struct amb_pageheap *heap);
/* Allocations of so many pages are what `room_wide` counts with; at least AMB_ROOM_PAGES. */
void amb_pageheap_set_wide(struct amb_pageheap *heap, uint32_t pages);
/* A new extent over a whole segment of at most AMB_EXTENT_PAGES_MAX pages, all free. ENOMEM. */
AMB_MUST_CHECK enum amb_status
amb_pageheap_add(struct amb_pageheap *heap, struct amb_segment *segment, struct amb_extent **out);
/* Forgets the extent's free runs and frees its tables. Nothing in it is used any more. */
void amb_pageheap_remove(struct amb_pageheap *heap, struct amb_extent *extent);
/* amb_sizeclass_units(cls) pages; false if no extent has them in a row. */
bool amb_pageheap_alloc(struct amb_pageheap *heap, uint32_t cls, struct amb_extent **extent,
                        uint32_t *first);
/* By how much less `room` and `room_wide` would be then; false if none is binned. */
bool amb_pageheap_cost(const struct amb_pageheap *heap, uint32_t cls, uint64_t *cost,
                       uint64_t *cost_wide);
void amb_pageheap_free(struct amb_pageheap *heap, struct amb_extent *extent, uint32_t first);
/* Cuts a run that is used: its first `keep` pages, those of a class, stay it; the others are
 * another one, of however many pages. */
void amb_pageheap_cut(struct amb_extent *extent, uint32_t first, uint32_t keep);
/* Merges all that is in quick lists. */
void amb_pageheap_merge(struct amb_pageheap *heap);
/* Asserts every invariant of the extent; *quick_bytes grows by what it has in quick lists, *room by
 * what of `room` is its. */
void amb_pageheap_check(const struct amb_pageheap *heap, const struct amb_extent *extent,
                        uint64_t *quick_bytes, uint64_t *room);
