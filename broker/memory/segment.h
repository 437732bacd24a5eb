/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One range of shared host memory: the broker writes it, others may map it to read.
 *
 * The only descriptor that leaves this module is read-only, and the memfd is sealed before anybody
 * gets it. So nobody can shrink it (SIGBUS here), grow it, write to it or map it writable. The only
 * exception is the mapping that was made before the seals.
 *
 * A leased segment is one that a client writes, through a mapping that it makes before the seals.
 * Its life is: create, fill, (a duplicate of fd_rw goes to the client, which maps it), seal, fill
 * again, finish. From its first moment it cannot shrink; from the seals on it cannot get another
 * writer or holes.
 *
 * Pages of a sealed segment cannot be taken back: the seals refuse hole punching to the broker too.
 * They live as long as any process has the segment open or mapped. The kernel tells whether one
 * has: each open file description counts, and a mapping keeps its own. So the broker's mapping, the
 * descriptor for readers and the one for the writer are three descriptions.
 *
 * Threads: owner worker. Memory: the whole range is allocated and populated at creation, so a later
 * write can neither fault slowly nor die for want of a page.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_SEGMENT_ALIGN (UINT64_C(2) << 20) /* sizes are multiples of this */
#define AMB_SLOT_PARTS 4096u                  /* of all slots of a lease, see slot_parts */

struct amb_bufpool;
struct amb_gpu_pool;
struct amb_link_mem;
struct amb_party;
struct amb_trust_group;

enum amb_segment_use {
    AMB_SEGMENT_UNUSED,  /* no process has it open or mapped but this one */
    AMB_SEGMENT_IN_USE,  /* one has */
    AMB_SEGMENT_UNKNOWN, /* the kernel does not tell */
};

struct amb_segment {
    uint64_t id;   /* never reused in the broker's life */
    uint8_t *base; /* writable, here and by whoever has leased it */
    uint64_t size;
    struct amb_gpu_pool *gpu; /* a range of it: base is a device address; NULL: host memory */
    uint64_t gpu_offset;      /* in the pool */
    int fd_ro;                /* O_RDONLY, to be sent with SCM_RIGHTS */
    int fd_rw;                /* of a leased one until it is finished; else -1 */
    /* Of a session's lease: what one of its slots is of all, in 4096ths, rounded up. Else 0. Any
     * thread that has been given the segment. */
    uint32_t slot_parts;
    bool is_leased;           /* charged as a lease segment, */
    struct amb_party *party;  /* and to that one; or NULL */
    struct amb_link_mem *mem; /* registration by the owner's hook, or NULL */
    void *owner_data;         /* the owner's hook's */
    int64_t dropped_ns;       /* in limbo: since when */
    uint64_t fence;           /* of its budget, when a pool had it first */
    /* Of the messages that lie there; NULL: in GPU memory, or none has come. Other workers read it
     * when they deliver from there, also while its own retires the segment. */
    _Atomic(const struct amb_trust_group *) group;
    struct amb_bufpool *pool; /* its owner; NULL: a leased one */
    void *pool_data;          /* bufpool's */
    /* How its maker frees it, where segment.c did not make it; else NULL. */
    void (*destroy)(struct amb_segment *segment);
    struct amb_list_node node; /* in the pool's list */
};

/* Any thread that has been given the segment. */
static inline const struct amb_trust_group *amb_segment_group(const struct amb_segment *segment)
{
    return atomic_load_explicit(&segment->group, memory_order_relaxed);
}
/* Its owner worker, or the one that hands it out. */
static inline void amb_segment_set_group(struct amb_segment *segment,
                                         const struct amb_trust_group *group)
{
    atomic_store_explicit(&segment->group, group, memory_order_relaxed);
}

/* size: a multiple of the page size. ENOMEM, ELIMIT (descriptors), EINVAL. Takes about 1 ms a
 * MiB: the kernel zeroes every page. */
AMB_MUST_CHECK enum amb_status amb_segment_create(uint64_t id, uint64_t size,
                                                  struct amb_segment **out);
/* The same, and the pause runs on the caller's thread before each part of at most 2 MiB. */
struct amb_segment_pause {
    void (*fn)(void *arg);
    void *arg;
};
AMB_MUST_CHECK enum amb_status amb_segment_create_in_parts(uint64_t id, uint64_t size,
                                                           const struct amb_segment_pause *pause,
                                                           struct amb_segment **out);
/* One to be written by a client: sealed against shrinking and growing, and without pages yet.
 */
AMB_MUST_CHECK enum amb_status amb_segment_create_leased(uint64_t id, uint64_t size,
                                                         struct amb_segment **out);
/* A range of a device's pool, which is its until it is destroyed. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_segment_create_gpu(uint64_t id, struct amb_gpu_pool *pool,
                                                      uint64_t size, struct amb_segment **out);
/* Allocates what is missing of a part of a leased one, by its writable descriptor. ENOMEM. About
 * 1 ms a MiB of new pages. Any thread. */
AMB_MUST_CHECK enum amb_status amb_segment_fill(int fd, uint64_t offset, uint64_t size);
/* A descriptor for its writer, of a description of its own, before the seals. ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_segment_open_writer(const struct amb_segment *segment, int *fd);
/*
 * Has any other process, or descriptor here, the segment open or mapped? fd_ro, which others share,
 * is replaced by one of its own. The segment may be used on, if it was not leased. The things that
 * the kernel does not count: O_PATH descriptors and inotify watches. About 10 us.
 */
enum amb_segment_use amb_segment_ask_use(struct amb_segment *segment);
/* The client has mapped it: nobody else can any more. EFORBIDDEN: it has been meddled with. */
AMB_MUST_CHECK enum amb_status amb_segment_seal(struct amb_segment *segment);
/* Sealed and filled, or of no more use: the writable descriptor goes. Harmless twice. */
void amb_segment_finish(struct amb_segment *segment);
/* Unmaps here; processes that have it mapped keep their view. *segment may be NULL. */
void amb_segment_destroy(struct amb_segment **segment);
