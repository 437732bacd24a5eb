/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages behind a ring. A ring begins without any. Its producer has the system bring some before
 * it writes there, and gives all of them back when the ring has been empty for long. So a client
 * that says little costs little. Between honest peers no write meets a page that cannot be had:
 * that would be a SIGBUS. A peer may punch holes of its own, and read or write them.
 *
 * Threads and Memory: those of link.h. Only the other files of this room include this.
 */
#pragma once

#include "wire/link/ring/ring_state.h"

/* Has pages behind the way out, at least up to position end, of which there is room. False: there
 * is no memory, and the ring is broken. */
bool ring_pages_bring(struct ring *ring, uint64_t end);

/* Before a write up to position end. Once round the ring there is nothing left to bring. */
static inline bool ring_pages_reach(struct ring *ring, uint64_t end)
{
    return ring->out.has_all_pages || (int64_t)(end - ring->out.pages_end) <= 0 ||
           ring_pages_bring(ring, end);
}

/* amb_link_trim. */
bool ring_pages_trim(struct amb_link *link);
