/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One range of shared host memory: the broker writes it, others may map it to read.
 *
 * The only descriptor that leaves this module is read-only, and the memfd is sealed before anybody
 * gets it: nobody can shrink it (SIGBUS here), grow it, write to it or map it writable, except
 * through the mapping that was made before the seals.
 *
 * Threads: owner worker. Memory: the whole range is allocated and populated at creation, so a later
 * write can neither fault slowly nor die for want of a page.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdint.h>

#define AMB_SEGMENT_ALIGN (UINT64_C(2) << 20) /* sizes are multiples of this */

struct amb_link_mem;

struct amb_segment {
    uint64_t id;   /* never reused in the broker's life */
    uint8_t *base; /* writable, here only */
    uint64_t size;
    int fd_ro;                 /* O_RDONLY, to be sent with SCM_RIGHTS */
    struct amb_link_mem *mem;  /* registration by the owner's hook, or NULL */
    void *owner_data;          /* the owner's hook's */
    void *pool_data;           /* bufpool's */
    struct amb_list_node node; /* in the pool's list */
};

/* size: a multiple of the page size. ENOMEM, ELIMIT (descriptors), EINVAL. Takes about 1 ms a
 * MiB: the kernel zeroes every page. */
AMB_MUST_CHECK enum amb_status amb_segment_create(uint64_t id, uint64_t size,
                                                  struct amb_segment **out);
/* Unmaps here; processes that have it mapped keep their view. *segment may be NULL. */
void amb_segment_destroy(struct amb_segment **segment);
