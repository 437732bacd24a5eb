/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ring/ring_pages.h"

#include "wire/base/pages.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGE UINT64_C(4096)
/* So many bytes at a time: as many as there are, within these. */
#define STEP_MIN (16 * UINT64_C(1024))
#define STEP_MAX (128 * UINT64_C(1024))
/* A ring with less is not worth a system call. */
#define KEPT_MAX STEP_MIN

bool ring_pages_bring(struct ring *ring, uint64_t end)
{
    struct ring_out *out = &ring->out;
    while ((int64_t)(end - out->pages_end) > 0 && !out->has_all_pages) {
        uint64_t have = out->pages_end - out->pages_begin;
        uint64_t step = have < STEP_MIN ? STEP_MIN : have > STEP_MAX ? STEP_MAX : have;
        step = have + step < ring->size ? step : ring->size - have;
        void *at = ring_at(out->bytes, ring->size, out->pages_end);
        if (amb_pages_bring(at, step) != 0 && errno != EINVAL) {
            ring->broken = "no memory for the ring";
            ring->broken_status = AMB_ENOMEM;
            return false;
        }
        out->pages_end += step;
        out->has_all_pages = have + step == ring->size;
    }
    return true;
}

/* Nobody has a use for a byte of the way out then: the peer has read all that it knows of. */
static bool is_empty(const struct ring *ring)
{
    const struct ring_out *out = &ring->out;
    return amb_list_is_empty(&out->queue) && out->published == out->tail &&
           atomic_load_explicit(&out->control->head, memory_order_acquire) == out->tail;
}

bool ring_pages_trim(struct amb_link *link)
{
    struct ring *ring = ring_of(link);
    struct ring_out *out = &ring->out;
    bool was_idle = out->tail == out->tail_at_trim;
    out->tail_at_trim = out->tail;
    uint64_t have = out->has_all_pages ? ring->size : out->pages_end - out->pages_begin;
    if (!was_idle || link->is_down || have <= KEPT_MAX || !is_empty(ring) ||
        madvise(out->bytes, ring->size, MADV_REMOVE) != 0) {
        return false;
    }
    /* A page that the next unit begins in the middle of is brought anew, too. */
    out->pages_begin = out->pages_end = out->tail & ~(PAGE - 1);
    out->has_all_pages = false;
    return true;
}
