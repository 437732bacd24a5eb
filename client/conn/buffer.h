/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for bodies received by copy: power-of-two classes, each with a LIFO free list so that the
 * next body finds warm memory. Cached memory is bounded; memory that is out counts against a limit.
 * Threads: owner only (the connection's lock). Memory: allocates when a free list is empty.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define AMB_BUFFER_ALIGN 64u
#define AMB_BUFFER_CLASSES 34u /* 512 B to 4 TiB */

struct amb_buffers {
    void *free_list[AMB_BUFFER_CLASSES];
    uint64_t used, used_max; /* bytes out, and how many may be */
    uint64_t cached, cached_max;
};

void amb_buffers_init(struct amb_buffers *buffers, uint64_t used_max);
/* Frees cached memory. */
void amb_buffers_fini(struct amb_buffers *buffers);
/* At least `size` bytes, aligned to AMB_BUFFER_ALIGN; NULL at the limit or without memory. */
void *amb_buffers_get(struct amb_buffers *buffers, uint64_t size);
/* size: as it was asked for. NULL is allowed. */
void amb_buffers_put(struct amb_buffers *buffers, void *buffer, uint64_t size);
