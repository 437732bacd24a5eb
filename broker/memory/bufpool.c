/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/bufpool.h"

#include "broker/memory/dedicated.h"
#include "broker/memory/pool_segment.h"
#include "broker/memory/sizeclass.h"
#include "broker/memory/slab.h"
#include "wire/base/assert.h"

/*
 * amb_buf.cls:
 *
 *   0..19                objects of 64 B to 4 KiB
 *   20, 21               objects of two and three pages: sizes between would not be page aligned
 *   AMB_BUF_RUNS and up  runs
 *   AMB_BUF_DEDICATED    segments of their own
 */
#define SMALL_MAX (3 * AMB_PAGE_SIZE)
/* The segment that is made on the spot while a whole one is on its way: about 4 ms. */
#define GROW_HERE_BYTES (UINT64_C(4) << 20)
/* Beyond the bytes that are reserved: they may be of classes that have no slab with room. */
#define RESERVE_SLABS 2u
/* Bytes of the largest segment that the heap takes. */
#define EXTENT_MAX ((uint64_t)AMB_EXTENT_PAGES_MAX * AMB_PAGE_SIZE)

static bool is_dedicated_len(const struct amb_bufpool *pool, uint64_t len)
{
    return len > pool->options.segment_bytes / 2;
}

/* ---- runs ---- */

static void slabs_release_empty(struct amb_bufpool *pool);
static void slabs_release_kept(struct amb_bufpool *pool);

static enum amb_status heap_enter(struct amb_bufpool *pool, struct amb_segment *segment)
{
    struct amb_extent *extent;
    enum amb_status status = amb_pageheap_add(&pool->heap, segment, &extent);
    if (status != AMB_OK) {
        amb_pool_segment_unmake(pool, segment, false);
        return status;
    }
    segment->pool_data = extent;
    return AMB_OK;
}

/* Takes a normal segment's bytes, or the rest of the budget, if that holds the run wanted. Returns
 * the bytes; 0: neither. */
static uint64_t heap_charge(struct amb_bufpool *pool, uint64_t bytes, uint64_t need)
{
    struct amb_membudget *budget = pool->options.budget;
    if (amb_dedicated_charge(pool, bytes)) {
        return bytes;
    }
    uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
    bytes = used < budget->max ? (budget->max - used) / AMB_SEGMENT_ALIGN * AMB_SEGMENT_ALIGN : 0;
    bool is_some = bytes != 0 && bytes >= need && bytes <= pool->options.segment_bytes;
    return is_some && amb_membudget_take(budget, bytes) ? bytes : 0;
}

/* Bytes of the next segment, for a run of `need` bytes. */
static uint64_t next_bytes(const struct amb_bufpool *pool, uint64_t need)
{
    uint64_t most = pool->options.segment_bytes, least = pool->options.first_bytes;
    if (least == 0) {
        return most;
    }
    need = amb_pool_round_up(need, AMB_SEGMENT_ALIGN);
    least = least < need ? need : least;
    least = least < pool->segment_bytes ? pool->segment_bytes : least;
    return least < most ? least : most;
}

/* One more segment: one that readers still have mapped, a normal one, or the rest of the budget.
 * While one is being made, what is made here is only as much as cannot wait for it. */
static enum amb_status heap_grow(struct amb_bufpool *pool, uint64_t need, enum amb_claim claim)
{
    struct amb_segment *segment;
    if (amb_pool_segment_reuse(pool, need, EXTENT_MAX, &segment)) {
        return heap_enter(pool, segment);
    }
    uint64_t bytes = next_bytes(pool, need);
    if (pool->is_making) {
        uint64_t least = amb_pool_round_up(need, AMB_SEGMENT_ALIGN);
        least = least < GROW_HERE_BYTES ? GROW_HERE_BYTES : least;
        bytes = least < bytes ? least : bytes;
    }
    bytes = heap_charge(pool, bytes, need);
    if (bytes == 0) {
        return AMB_ENOMEM;
    }
    if (claim == AMB_CLAIM_LATER && amb_pool_segment_ask(pool, bytes, false)) {
        return AMB_EAGAIN;
    }
    enum amb_status status = amb_pool_segment_make(pool, bytes, &segment);
    if (status != AMB_OK) {
        return status;
    }
    return heap_enter(pool, segment);
}

/* Pages that those may need which are reserved. */
static uint64_t reserved_pages(const struct amb_bufpool *pool, uint64_t bytes)
{
    uint64_t most = pool->is_pressed ? bytes / 4 * 5 : 2 * bytes + RESERVE_SLABS * SLAB_BYTES;
    return bytes == 0 ? 0 : most / AMB_PAGE_SIZE + 1;
}

static bool heap_has_room(struct amb_bufpool *pool, uint64_t pages, bool wide)
{
    struct amb_pageheap *heap = &pool->heap;
    if ((wide ? heap->room_wide : heap->room) >= pages) {
        return true;
    }
    if (heap->pages - heap->used_pages + pool->live_slabs * AMB_SLAB_PAGES < pages) {
        return false; /* However they lie. */
    }
    slabs_release_kept(pool);
    if (heap->quick_bytes > 0) {
        amb_pageheap_merge(heap);
    }
    return (wide ? heap->room_wide : heap->room) >= pages;
}

/* May the heap have so much less room? A lack that is there already does not become worse. */
static bool room_may_go(const struct amb_bufpool *pool, uint64_t narrow, uint64_t wide)
{
    return (narrow == 0 || pool->heap.room >= narrow + reserved_pages(pool, pool->reserved)) &&
           (wide == 0 || pool->heap.room_wide >= wide + reserved_pages(pool, pool->reserved_wide));
}

/* Is a run binned that is not reserved for others? */
static bool run_is_spare(const struct amb_bufpool *pool, uint32_t cls)
{
    uint64_t narrow, wide;
    return amb_pageheap_cost(&pool->heap, cls, &narrow, &wide) && room_may_go(pool, narrow, wide);
}

/* The same, of all there are. */
static bool run_may_go(struct amb_bufpool *pool, uint32_t cls)
{
    if (pool->reserved == 0 || !amb_list_is_empty(&pool->heap.quick[cls]) ||
        run_is_spare(pool, cls)) {
        return true;
    }
    slabs_release_kept(pool);
    if (pool->heap.quick_bytes == 0) {
        return false;
    }
    amb_pageheap_merge(&pool->heap);
    return run_is_spare(pool, cls);
}

static bool run_take(struct amb_bufpool *pool, uint32_t cls, bool is_granted,
                     struct amb_extent **extent, uint32_t *first)
{
    return (is_granted || run_may_go(pool, cls)) &&
           amb_pageheap_alloc(&pool->heap, cls, extent, first);
}

static enum amb_status run_alloc(struct amb_bufpool *pool, uint32_t cls, enum amb_claim claim,
                                 struct amb_extent **extent, uint32_t *first)
{
    bool is_granted = claim == AMB_CLAIM_GRANTED;
    if (run_take(pool, cls, is_granted, extent, first)) {
        return AMB_OK;
    }
    if (claim == AMB_CLAIM_LATER && pool->is_making) {
        return AMB_EAGAIN;
    }
    enum amb_status status = heap_grow(pool, amb_sizeclass_units(cls) * AMB_PAGE_SIZE, claim);
    if (status != AMB_OK) {
        slabs_release_empty(pool);
    }
    if (run_take(pool, cls, is_granted, extent, first)) {
        return AMB_OK;
    }
    return status != AMB_OK ? status : AMB_ENOMEM;
}

/* ---- slabs ---- */

static enum amb_status slab_make(struct amb_bufpool *pool, uint32_t cls, enum amb_claim claim,
                                 struct amb_slab **out)
{
    struct amb_extent *extent;
    uint32_t first;
    enum amb_status status =
        run_alloc(pool, amb_sizeclass_of(AMB_SLAB_PAGES), claim, &extent, &first);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_slab *slab = &extent->slabs[first / AMB_SLAB_PAGES];
    amb_assert(!slab->is_live);
    slab_begin(slab, extent, first, cls);
    amb_list_push_front(&pool->slabs[cls], &slab->node);
    pool->live_slabs++;
    pool->sparse_slabs++;
    *out = slab;
    return AMB_OK;
}

static void slab_release(struct amb_bufpool *pool, struct amb_slab *slab)
{
    amb_list_remove(&slab->node);
    slab->is_live = false;
    pool->live_slabs--;
    pool->sparse_slabs--; /* It is empty. */
    amb_pageheap_free(&pool->heap, slab->extent, slab->first);
}

static void slabs_release_empty(struct amb_bufpool *pool)
{
    for (uint32_t cls = 0; cls < AMB_SMALL_CLASSES; cls++) {
        AMB_LIST_FOR_EACH_SAFE (node, &pool->slabs[cls]) {
            struct amb_slab *slab = AMB_CONTAINER_OF(node, struct amb_slab, node);
            if (slab->used == 0) {
                slab_release(pool, slab);
            }
        }
    }
}

/* The only one of its class stays when it is empty. */
static void slabs_release_kept(struct amb_bufpool *pool)
{
    for (uint32_t cls = 0; cls < AMB_SMALL_CLASSES; cls++) {
        if (!amb_list_is_empty(&pool->slabs[cls])) {
            struct amb_slab *slab = AMB_CONTAINER_OF(pool->slabs[cls].prev, struct amb_slab, node);
            if (slab->used == 0) {
                slab_release(pool, slab);
            }
        }
    }
}

/* An object of a slab that has room. */
static void slab_take(struct amb_bufpool *pool, struct amb_slab *slab, struct amb_buf *out)
{
    uint32_t bytes = small_class_bytes(slab->cls);
    bool was_sparse = slab_is_sparse(slab);
    uint32_t i = slab_pop(slab);
    if (++slab->used == slab_objects(slab->cls)) {
        amb_list_remove(&slab->node);
    }
    pool->sparse_slabs -= was_sparse && !slab_is_sparse(slab);
    struct amb_segment *segment = slab->extent->segment;
    *out = (struct amb_buf){.data = segment->base + slab->first * AMB_PAGE_SIZE + (size_t)i * bytes,
                            .segment = segment,
                            .cap = bytes,
                            .cls = slab->cls};
}

/* There is no room for a slab: an object of a larger class. */
static bool small_alloc_larger(struct amb_bufpool *pool, uint32_t cls, struct amb_buf *out)
{
    for (cls++; cls < AMB_SMALL_CLASSES; cls++) {
        if (!amb_list_is_empty(&pool->slabs[cls])) {
            slab_take(pool, AMB_CONTAINER_OF(pool->slabs[cls].next, struct amb_slab, node), out);
            return true;
        }
    }
    return false;
}

static enum amb_status small_alloc(struct amb_bufpool *pool, uint64_t len, enum amb_claim claim,
                                   struct amb_buf *out)
{
    bool is_granted = claim == AMB_CLAIM_GRANTED;
    uint32_t cls = small_class_of(len);
    struct amb_slab *slab;
    if (amb_list_is_empty(&pool->slabs[cls])) {
        /* A few bytes that were reserved are no slab: that leaves others what they were granted. */
        if (is_granted && !run_may_go(pool, amb_sizeclass_of(AMB_SLAB_PAGES)) &&
            small_alloc_larger(pool, cls, out)) {
            return AMB_OK;
        }
        enum amb_status status = slab_make(pool, cls, claim, &slab);
        if (status != AMB_OK) {
            return is_granted && small_alloc_larger(pool, cls, out) ? AMB_OK : status;
        }
    } else {
        slab = AMB_CONTAINER_OF(pool->slabs[cls].next, struct amb_slab, node);
    }
    slab_take(pool, slab, out);
    return AMB_OK;
}

static struct amb_slab *slab_of(const struct amb_buf *buf)
{
    const struct amb_extent *extent = buf->segment->pool_data;
    return slab_at(extent, (uint32_t)((uint64_t)(buf->data - buf->segment->base) / AMB_PAGE_SIZE));
}

bool amb_bufpool_is_small(const struct amb_buf *buf)
{
    return buf->cls < AMB_SMALL_CLASSES;
}

bool amb_bufpool_alloc_denser(struct amb_bufpool *pool, const struct amb_buf *from,
                              struct amb_buf *out)
{
    if (!amb_bufpool_is_small(from) || pool->sparse_slabs == 0) {
        return false;
    }
    const struct amb_slab *source = slab_of(from);
    if (!slab_is_sparse(source)) {
        return false;
    }
    struct amb_slab *best = slab_find_denser(&pool->slabs[from->cls], source);
    if (best == NULL) {
        return false;
    }
    slab_take(pool, best, out);
    pool->used += out->cap;
    return true;
}

static void small_free(struct amb_bufpool *pool, struct amb_extent *extent,
                       const struct amb_buf *buf)
{
    uint64_t at = (uint64_t)(buf->data - extent->segment->base);
    struct amb_slab *slab = slab_at(extent, (uint32_t)(at / AMB_PAGE_SIZE));
    bool was_sparse = slab_is_sparse(slab);
    uint32_t bytes = small_class_bytes(slab->cls);
    uint64_t inside = at - slab->first * AMB_PAGE_SIZE;
    uint32_t i = (uint32_t)inside / bytes;
    uint64_t bit = UINT64_C(1) << (i % 64);
    amb_assert(slab->cls == buf->cls && inside % bytes == 0);
    amb_assert(slab->used > 0 && (slab->free_map[i / 64] & bit) == 0);
    slab->free_map[i / 64] |= bit;
    struct amb_list_node *list = &pool->slabs[slab->cls];
    if (slab->used-- == slab_objects(slab->cls)) {
        amb_list_push_front(list, &slab->node);
    }
    pool->sparse_slabs += !was_sparse && slab_is_sparse(slab);
    /* The class's only slab stays, or one object coming and going would cut it anew each time. */
    if (slab->used == 0 && (list->next != &slab->node || list->prev != &slab->node)) {
        slab_release(pool, slab);
    }
}

/* ---- the pool ---- */

enum amb_status amb_bufpool_init(struct amb_bufpool *pool,
                                 const struct amb_bufpool_options *options)
{
    uint64_t bytes = options->segment_bytes;
    if (options->budget == NULL || bytes == 0 || bytes % AMB_SEGMENT_ALIGN != 0 ||
        options->first_bytes % AMB_SEGMENT_ALIGN != 0 ||
        bytes / AMB_PAGE_SIZE > AMB_EXTENT_PAGES_MAX ||
        options->dedicated_cache > AMB_DEDICATED_CACHE_MAX) {
        return AMB_EINVAL;
    }
    *pool = (struct amb_bufpool){.options = *options};
    if (pool->options.dedicated_cache == 0) {
        pool->options.dedicated_cache = 1;
    }
    if (pool->options.group == NULL) {
        pool->options.group = &amb_trust_group_private;
    }
    amb_list_init(&pool->segments);
    amb_pageheap_init(&pool->heap);
    for (uint32_t i = 0; i < AMB_SMALL_CLASSES; i++) {
        amb_list_init(&pool->slabs[i]);
    }
    return AMB_OK;
}

void amb_bufpool_fini(struct amb_bufpool *pool)
{
    if (pool->options.budget == NULL) {
        return;
    }
    AMB_LIST_FOR_EACH_SAFE (node, &pool->segments) {
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        amb_pool_extent_unmake(pool, segment->pool_data, false);
    }
    amb_assert(pool->segment_bytes == 0);
    *pool = (struct amb_bufpool){0};
}

uint64_t amb_bufpool_charge(const struct amb_bufpool *pool, uint64_t len)
{
    if (is_dedicated_len(pool, len)) {
        return amb_pool_round_up(len, AMB_SEGMENT_ALIGN);
    }
    if (len <= SMALL_MAX) {
        return small_class_bytes(small_class_of(len));
    }
    return amb_sizeclass_units(amb_pageheap_class_of(len)) * AMB_PAGE_SIZE;
}

static void run_give_out(struct amb_extent *extent, uint32_t first, uint32_t cls,
                         struct amb_buf *out)
{
    *out = (struct amb_buf){.data = extent->segment->base + first * AMB_PAGE_SIZE,
                            .segment = extent->segment,
                            .cap = amb_sizeclass_units(cls) * AMB_PAGE_SIZE,
                            .cls = AMB_BUF_RUNS + cls};
}

static enum amb_status pool_alloc(struct amb_bufpool *pool, uint64_t len, enum amb_claim claim,
                                  struct amb_buf *out)
{
    enum amb_status status = AMB_ENOMEM;
    if (is_dedicated_len(pool, len)) {
        status = amb_dedicated_alloc(pool, len, claim, out);
    } else if (len <= SMALL_MAX) {
        status = small_alloc(pool, len, claim, out);
    }
    /* A page or three of what was granted, where no slab has room and none can be made. */
    bool is_run = len > SMALL_MAX || claim == AMB_CLAIM_GRANTED;
    if (status == AMB_ENOMEM && !is_dedicated_len(pool, len) && is_run) {
        uint32_t cls = amb_pageheap_class_of(len), first;
        struct amb_extent *extent;
        status = run_alloc(pool, cls, claim, &extent, &first);
        if (status == AMB_OK) {
            run_give_out(extent, first, cls, out);
        }
    }
    if (status == AMB_OK) {
        pool->used += out->cap;
    }
    return status;
}

enum amb_status amb_bufpool_alloc(struct amb_bufpool *pool, uint64_t len, struct amb_buf *out)
{
    return pool_alloc(pool, len, AMB_CLAIM_NOW, out);
}

enum amb_status amb_bufpool_alloc_granted(struct amb_bufpool *pool, uint64_t len,
                                          struct amb_buf *out)
{
    return pool_alloc(pool, len, AMB_CLAIM_GRANTED, out);
}

void amb_bufpool_free(struct amb_bufpool *pool, const struct amb_buf *buf)
{
    struct amb_extent *extent = buf->segment->pool_data;
    amb_assert(pool->used >= buf->cap);
    pool->used -= buf->cap;
    if (buf->cls == AMB_BUF_DEDICATED) {
        amb_dedicated_free(pool, extent);
    } else if (buf->cls < AMB_SMALL_CLASSES) {
        small_free(pool, extent, buf);
    } else {
        uint64_t at = (uint64_t)(buf->data - extent->segment->base);
        amb_assert(at % AMB_PAGE_SIZE == 0);
        amb_pageheap_free(&pool->heap, extent, (uint32_t)(at / AMB_PAGE_SIZE));
    }
}

enum amb_status amb_bufpool_prepare(struct amb_bufpool *pool)
{
    return amb_list_is_empty(&pool->segments) ? heap_grow(pool, AMB_SEGMENT_ALIGN, AMB_CLAIM_NOW)
                                              : AMB_OK;
}

/* May the run of a whole segment go? */
static bool trim_may_go(const struct amb_bufpool *pool, const struct amb_extent *extent)
{
    return room_may_go(pool, amb_pageheap_room(extent->pages, AMB_ROOM_PAGES),
                       amb_pageheap_room(extent->pages, pool->heap.wide));
}

static void pool_trim(struct amb_bufpool *pool, uint32_t spare, bool later)
{
    while (pool->cached > 0) {
        amb_dedicated_drop(pool, later);
    }
    slabs_release_empty(pool);
    amb_pageheap_merge(&pool->heap);
    AMB_LIST_FOR_EACH_SAFE (node, &pool->segments) {
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        struct amb_extent *extent = segment->pool_data;
        if (extent->pages == 0 || extent->used_pages > 0 || !trim_may_go(pool, extent)) {
            continue;
        }
        if (spare > 0) {
            spare--;
        } else {
            amb_pool_extent_unmake(pool, extent, later);
        }
    }
}

void amb_bufpool_trim(struct amb_bufpool *pool, uint32_t spare)
{
    pool_trim(pool, spare, false);
}

void amb_bufpool_trim_later(struct amb_bufpool *pool, uint32_t spare)
{
    pool_trim(pool, spare, true);
}

/* ---- segments that are made elsewhere ---- */

void amb_bufpool_not_made(struct amb_bufpool *pool, uint64_t bytes, bool is_dedicated)
{
    *(is_dedicated ? &pool->is_making_dedicated : &pool->is_making) = false;
    amb_membudget_give(pool->options.budget, bytes);
}

void amb_bufpool_adopt(struct amb_bufpool *pool, struct amb_segment *segment, bool is_dedicated)
{
    *(is_dedicated ? &pool->is_making_dedicated : &pool->is_making) = false;
    amb_pool_segment_new(pool, segment);
    if (is_dedicated) {
        amb_dedicated_adopt(pool, segment);
    } else {
        (void)heap_enter(pool, segment);
    }
}

void amb_bufpool_served(struct amb_bufpool *pool)
{
    if (pool->fresh != NULL) {
        amb_dedicated_served(pool);
    }
}

void amb_bufpool_ahead(struct amb_bufpool *pool)
{
    uint64_t bytes = pool->options.segment_bytes;
    uint64_t free_bytes = (pool->heap.pages - pool->heap.used_pages) * AMB_PAGE_SIZE;
    if (free_bytes >= bytes / 2 * pool->options.spare || pool->is_making ||
        pool->options.make == NULL) {
        return;
    }
    /* The last quarter is for those who need it now. */
    struct amb_membudget *budget = pool->options.budget;
    if (atomic_load_explicit(&budget->used, memory_order_relaxed) + bytes > budget->max / 4 * 3 ||
        !amb_membudget_take(budget, bytes)) {
        return;
    }
    if (!amb_pool_segment_ask(pool, bytes, false)) {
        amb_membudget_give(budget, bytes);
    }
}

/* Of a pool that begins small: enough for a window that comes in one piece. */
static uint64_t more_need(const struct amb_bufpool *pool)
{
    return pool->options.first_bytes == 0 ? AMB_SEGMENT_ALIGN
                                          : 2 * (uint64_t)pool->heap.wide * AMB_PAGE_SIZE;
}

uint64_t amb_bufpool_more_bytes(const struct amb_bufpool *pool)
{
    return next_bytes(pool, more_need(pool));
}

enum amb_status amb_bufpool_more(struct amb_bufpool *pool)
{
    uint64_t bytes = amb_bufpool_more_bytes(pool);
    if (pool->is_making) {
        return AMB_EAGAIN;
    }
    struct amb_segment *segment;
    if (amb_pool_segment_reuse(pool, bytes, EXTENT_MAX, &segment)) {
        return heap_enter(pool, segment);
    }
    return heap_grow(pool, more_need(pool), AMB_CLAIM_LATER);
}

bool amb_bufpool_reserve(struct amb_bufpool *pool, uint64_t bytes, bool wide)
{
    if (!heap_has_room(pool, reserved_pages(pool, pool->reserved + bytes), wide)) {
        return false;
    }
    amb_bufpool_reserve_anyway(pool, bytes, wide ? bytes : 0);
    return true;
}

void amb_bufpool_set_window(struct amb_bufpool *pool, uint64_t bytes)
{
    uint64_t most = pool->options.segment_bytes / 2;
    pool->window_max = bytes < most ? bytes : most;
    amb_pageheap_set_wide(&pool->heap,
                          (uint32_t)amb_sizeclass_units(amb_pageheap_class_of(pool->window_max)));
}

enum amb_status amb_bufpool_alloc_later(struct amb_bufpool *pool, uint64_t len, struct amb_buf *out)
{
    /* A few bytes are not worth waiting until the maker has done what others asked it for. */
    return pool_alloc(pool, len, len <= SMALL_MAX ? AMB_CLAIM_NOW : AMB_CLAIM_LATER, out);
}
