/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slab by itself: 64 KiB cut into objects of one class. In which lists it is, is its pool's.
 *
 * Threads: owner worker. Memory: in its extent's table.
 */
#pragma once

#include "broker/memory/pageheap.h"
#include "broker/memory/sizeclass.h"
#include "wire/base/assert.h"

/* Slabs looked at for a place that is denser. */
#define DENSER_LOOKS 32u
#define SLAB_UNIT UINT64_C(64)
#define SLAB_PAGED_CLASS 20u
#define SLAB_BYTES (AMB_SLAB_PAGES * AMB_PAGE_SIZE)

static inline uint32_t small_class_of(uint64_t len)
{
    if (len <= AMB_PAGE_SIZE) {
        return amb_sizeclass_of(len == 0 ? 1 : (len + SLAB_UNIT - 1) / SLAB_UNIT);
    }
    return len <= 2 * AMB_PAGE_SIZE ? SLAB_PAGED_CLASS : SLAB_PAGED_CLASS + 1;
}

static inline uint32_t small_class_bytes(uint32_t cls)
{
    return (uint32_t)(cls < SLAB_PAGED_CLASS ? amb_sizeclass_units(cls) * SLAB_UNIT
                                             : (cls - SLAB_PAGED_CLASS + 2) * AMB_PAGE_SIZE);
}

static inline uint32_t slab_objects(uint32_t cls)
{
    return (uint32_t)SLAB_BYTES / small_class_bytes(cls);
}

static inline bool slab_is_sparse(const struct amb_slab *slab)
{
    return slab->used * 4u <= slab_objects(slab->cls);
}

/* All of it is free. */
static inline void slab_begin(struct amb_slab *slab, struct amb_extent *extent, uint32_t first,
                              uint32_t cls)
{
    *slab =
        (struct amb_slab){.extent = extent, .first = first, .cls = (uint16_t)cls, .is_live = true};
    uint32_t objects = slab_objects(cls);
    for (uint32_t i = 0; i < objects; i += 64) {
        uint32_t n = objects - i;
        slab->free_map[i / 64] = n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
    }
}

/* The slab that has this page. */
static inline struct amb_slab *slab_at(const struct amb_extent *extent, uint32_t page)
{
    uint32_t i = page / AMB_SLAB_PAGES;
    struct amb_slab *slab = &extent->slabs[i];
    if (i > 0 && (!slab->is_live || slab->first > page)) {
        slab--;
    }
    amb_assert(slab->is_live && page - slab->first < AMB_SLAB_PAGES);
    return slab;
}

/* Of the first slabs in the list the one that is used most, if not less than that one; or NULL. */
static inline struct amb_slab *slab_find_denser(const struct amb_list_node *slabs,
                                                const struct amb_slab *than)
{
    struct amb_slab *best = NULL;
    uint32_t looked = 0;
    AMB_LIST_FOR_EACH (node, slabs) {
        struct amb_slab *slab = AMB_CONTAINER_OF(node, struct amb_slab, node);
        if (slab != than && slab->used >= than->used && (best == NULL || slab->used > best->used)) {
            best = slab;
        }
        if (++looked == DENSER_LOOKS) {
            break;
        }
    }
    return best;
}

/* The index of an object that is free, and is not any more. */
static inline uint32_t slab_pop(struct amb_slab *slab)
{
    uint32_t word = 0;
    while (word < AMB_SLAB_WORDS - 1 && slab->free_map[word] == 0) {
        word++;
    }
    amb_assert(slab->free_map[word] != 0);
    uint32_t i = word * 64 + (uint32_t)__builtin_ctzll(slab->free_map[word]);
    slab->free_map[word] &= slab->free_map[word] - 1;
    return i;
}

/* Bytes of the extent's slabs that are not charged; checks them. */
static inline uint64_t check_slabs(const struct amb_extent *extent, uint32_t *live,
                                   uint32_t *sparse)
{
    uint64_t slack = 0; /* bytes of slabs that are not charged */
    for (uint32_t i = 0; i <= extent->pages / AMB_SLAB_PAGES; i++) {
        const struct amb_slab *slab = &extent->slabs[i];
        if (!slab->is_live) {
            continue;
        }
        const struct amb_page *page = &extent->page[slab->first];
        amb_assert(page->state == AMB_RUN_USED && page->pages == AMB_SLAB_PAGES);
        uint32_t n = 0, objects = slab_objects(slab->cls);
        for (uint32_t w = 0; w < AMB_SLAB_WORDS; w++) {
            n += (uint32_t)__builtin_popcountll(slab->free_map[w]);
        }
        amb_assert(n + slab->used == objects);
        bool is_listed = slab->node.next != &slab->node;
        amb_assert(is_listed == (slab->used < objects));
        slack += SLAB_BYTES - (uint64_t)slab->used * small_class_bytes(slab->cls);
        ++*live;
        *sparse += slab_is_sparse(slab);
    }
    return slack;
}
