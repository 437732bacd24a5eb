/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's allocator of payload memory, over segments of its own.
 *
 *      len < 12 KiB         an object of a 64 KiB slab       (classes of 64 B up to 12 KiB)
 *      up to half a segment a run of pages                   (pageheap.h)
 *      more                 a segment of its own, the last few of which are kept for the next one
 *
 * The object that was freed last is used next. All bookkeeping is beside the segments: readers map
 * those, and nothing but payloads is in them.
 *
 * Threads: owner worker.
 * Memory: segments, charged to the budget whole; alloc and free allocate nothing else unless a
 * segment comes or goes.
 */
#pragma once

#include "broker/base/trust_group.h"
#include "broker/memory/membudget.h"
#include "broker/memory/pageheap.h"
#include "broker/memory/segment.h"
#include "wire/base/assert.h"

#define AMB_SMALL_CLASSES 22u
#define AMB_DEDICATED_CACHE_MAX 8u
#define AMB_BUF_RUNS 32u /* classes of buffers: below it objects of slabs, from it runs, */
#define AMB_BUF_DEDICATED UINT32_MAX  /* ... and whole segments; */
#define AMB_BUF_HEAP (UINT32_MAX - 1) /* of no pool: payload.h */

struct amb_buf {
    uint8_t *data;               /* 64 B aligned, page aligned from 4 KiB up */
    struct amb_segment *segment; /* NULL: of the heap, and no pool's (payload.h) */
    uint64_t cap;                /* bytes charged, at least the length asked for */
    uint32_t cls;                /* the pool's */
};

struct amb_bufpool;
struct amb_inbox;

struct amb_bufpool_options {
    struct amb_membudget *budget;
    uint64_t segment_bytes;   /* of a normal segment; a multiple of AMB_SEGMENT_ALIGN */
    uint32_t dedicated_cache; /* free dedicated segments kept, 0: one */
    /* Of its segments, which stay in it, and so are used again by pools of it alone. NULL: that of
     * broker/base/trust_group.h that is private, so nobody is offered one. */
    const struct amb_trust_group *group;
    /* Bytes of its first segment; each doubles what there is, up to segment_bytes. 0: all have
     * segment_bytes. */
    uint64_t first_bytes;
    /* In place of amb_segment_create, for a simulator; NULL: that. */
    enum amb_status (*create)(uint64_t id, uint64_t size, struct amb_segment **out);
    /* May be NULL. create: registers the segment, so that links send from it; an error makes the
     * allocation fail with it. destroy: the opposite, just before it is unmapped. */
    enum amb_status (*on_create)(void *arg, struct amb_segment *segment);
    void (*on_destroy)(void *arg, struct amb_segment *segment);
    /*
     * May be NULL, and then everything happens at once. make: has a segment of so many bytes, which
     * the budget was charged with, made elsewhere; the answer is amb_bufpool_adopt or
     * amb_bufpool_not_made. False: cannot, and the charge stays with the pool. unmake: takes the
     * segment over, unmaps it elsewhere, and gives the budget its bytes back then.
     */
    bool (*make)(struct amb_bufpool *pool, uint64_t bytes, bool is_dedicated);
    void (*unmake)(void *arg, struct amb_segment *segment);
    struct amb_inbox *inbox; /* of the pool's worker: the maker's answers go there */
    bool *has_fresh;         /* set when amb_bufpool_served has something to do; NULL: not told */
    uint32_t spare;          /* segments' worth that amb_bufpool_ahead keeps free; 0: none */
    void *arg;
};

struct amb_bufpool {
    struct amb_bufpool_options options;
    struct amb_list_node segments; /* all of them, by struct amb_segment.node; for reading */
    uint64_t used;                 /* bytes charged out */
    uint64_t segment_bytes;        /* of all segments */
    struct amb_pageheap heap;
    struct amb_list_node slabs[AMB_SMALL_CLASSES]; /* with room, per class */
    uint32_t live_slabs,
        sparse_slabs; /* of all classes; those of which at most a quarter is used */
    struct amb_extent *cache[AMB_DEDICATED_CACHE_MAX];
    struct amb_extent *fresh; /* made elsewhere, for whoever waits for it (amb_bufpool_adopt) */
    bool is_making, is_making_dedicated; /* one of each at a time */
    /*
     * Bytes of batches that may still come (amb_bufpool_reserve), for which there is always room in
     * the present segments. Nobody else gets that room, and none of these segments goes.
     */
    uint64_t reserved, reserved_wide; /* the second: of the first, what may come in one piece */
    bool is_pressed;                  /* less of that will have to do for this once */
    uint64_t window_max;              /* most bytes that one window may open at a time */
    uint64_t made_here;               /* segments made on the worker */
    uint32_t cached;
};

/* Makes no segment yet. EINVAL. */
AMB_MUST_CHECK enum amb_status amb_bufpool_init(struct amb_bufpool *pool,
                                                const struct amb_bufpool_options *options);
/* Destroys all segments, whatever is still out. Harmless on a zeroed pool. */
void amb_bufpool_fini(struct amb_bufpool *pool);
/* len may be 0. ENOMEM: the budget or the host's memory is exhausted; ELIMIT: descriptors are. May
 * create a segment, which takes milliseconds. */
AMB_MUST_CHECK enum amb_status amb_bufpool_alloc(struct amb_bufpool *pool, uint64_t len,
                                                 struct amb_buf *out);
/*
 * The same for a caller that comes again. EAGAIN: a segment is being made elsewhere (options.make).
 * It is made here only if it cannot be there, or for a few bytes: those do not wait.
 */
AMB_MUST_CHECK enum amb_status amb_bufpool_alloc_later(struct amb_bufpool *pool, uint64_t len,
                                                       struct amb_buf *out);
/* Once a turn: has a segment made when less than half of the spare is free. */
void amb_bufpool_ahead(struct amb_bufpool *pool);
/* The segment that make has made (on_create is done), or could not make. A dedicated one is for
 * amb_bufpool_alloc_later alone, and stays whoever lacks memory, until amb_bufpool_served. */
void amb_bufpool_adopt(struct amb_bufpool *pool, struct amb_segment *segment, bool is_dedicated);
void amb_bufpool_not_made(struct amb_bufpool *pool, uint64_t bytes, bool is_dedicated);
/* All who wait for memory have asked since then. */
void amb_bufpool_served(struct amb_bufpool *pool);

/*
 * Granting. Of bytes that are reserved a batch may come in whatever pieces, of up to
 * AMB_BATCH_BYTES each, or with `wide` of whatever size. That is twice the bytes: a size class
 * wastes at most half; and a few slabs. False: no room in the segments that there are.
 *
 * amb_bufpool_more: one more segment, if need be a smaller one than normal. That is one that
 * readers still have mapped, or the rest of the budget. EAGAIN: it is being made.
 * amb_bufpool_alloc_granted: alloc for what was reserved; the caller has unreserved it.
 * amb_bufpool_unreserve: bytes, and how many of them were reserved as `wide`.
 * amb_bufpool_reserve_anyway: bytes that were unreserved and that nobody has had meanwhile.
 */
AMB_MUST_CHECK bool amb_bufpool_reserve(struct amb_bufpool *pool, uint64_t bytes, bool wide);
static inline void amb_bufpool_reserve_anyway(struct amb_bufpool *pool, uint64_t bytes,
                                              uint64_t wide)
{
    pool->reserved += bytes;
    pool->reserved_wide += wide;
}
static inline void amb_bufpool_unreserve(struct amb_bufpool *pool, uint64_t bytes, uint64_t wide)
{
    amb_assert(pool->reserved >= bytes && pool->reserved_wide >= wide);
    pool->reserved -= bytes;
    pool->reserved_wide -= wide;
}
AMB_MUST_CHECK enum amb_status amb_bufpool_more(struct amb_bufpool *pool);
/* Bytes of the segment that it would make. */
uint64_t amb_bufpool_more_bytes(const struct amb_bufpool *pool);
AMB_MUST_CHECK enum amb_status amb_bufpool_alloc_granted(struct amb_bufpool *pool, uint64_t len,
                                                         struct amb_buf *out);
/* Windows open by at most so much, or less where segments are small: window_max. */
void amb_bufpool_set_window(struct amb_bufpool *pool, uint64_t bytes);

/*
 * One more object of the same class as `from`, in a slab at least as full as that one. So the
 * emptier slabs become free when their objects are copied. False: `from` is no object of a slab of
 * which at most a quarter is used, or there is no better place. Makes no slab.
 */
AMB_MUST_CHECK bool amb_bufpool_alloc_denser(struct amb_bufpool *pool, const struct amb_buf *from,
                                             struct amb_buf *out);
/* Does it lie in a slab? */
bool amb_bufpool_is_small(const struct amb_buf *buf);
/* Bytes that alloc(len) would charge. */
uint64_t amb_bufpool_charge(const struct amb_bufpool *pool, uint64_t len);
void amb_bufpool_free(struct amb_bufpool *pool, const struct amb_buf *buf);
/* The same, to the pool that it is of. */
static inline void amb_buf_free(const struct amb_buf *buf)
{
    amb_bufpool_free(buf->segment->pool, buf);
}
static inline uint64_t amb_bufpool_used(const struct amb_bufpool *pool)
{
    return pool->used;
}
/* Makes the first segment ahead of need, if there is none. */
AMB_MUST_CHECK enum amb_status amb_bufpool_prepare(struct amb_bufpool *pool);
/* Gives back all cached dedicated segments and all wholly free normal ones but `spare`. */
void amb_bufpool_trim_later(struct amb_bufpool *pool, uint32_t spare);
/* The same, and the budget has them when it returns. */
void amb_bufpool_trim(struct amb_bufpool *pool, uint32_t spare);
