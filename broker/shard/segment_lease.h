/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: segments that one client writes in place, cut in slots. A slot is the client's to write
 * until a commit (book.h) names it, then nobody's until the last reader of that commit is done.
 *
 * In host memory (in GPU memory there are no pages to fill: OFFERED ─► SEALED):
 *
 *   FILLING ─► OFFERED ─► SEALING ─► SEALED ─► CLOSED ─► gone
 *     pages     the client maps      commits may name it
 *
 * LeaseClose, a failure, or the end of the session closes a lease, from any state. A closed lease
 * is gone when no commit names it and no process can write there.
 *
 * A segment is never used for another client. The process of one that ended without a word may
 * write there until it is gone: the memory stays charged so long.
 *
 * Threads: the shard's worker. Memory: one allocation a lease.
 */
#pragma once

#include "broker/memory/segment.h"
#include "broker/shard/book.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_LEASES_MAX 32u                  /* of one session */
#define AMB_LEASE_SLOTS_MAX 65536u          /* of all of them */
#define AMB_LEASE_SLOT_ALIGN UINT64_C(4096) /* slots are multiples of this */

struct amb_gpu_pool;
struct amb_shard;

enum amb_segment_lease_state {
    AMB_LEASE_FILLING, /* its pages are being allocated */
    AMB_LEASE_OFFERED, /* the client has the descriptor */
    AMB_LEASE_SEALING, /* it has mapped it */
    AMB_LEASE_SEALED,
    AMB_LEASE_CLOSED,
};

/*
 * A pass over the pages of a lease that is FILLING or SEALING. It takes 1 ms for each new MiB, and
 * is the maker's work, on a descriptor of its own. A lease that is closed meanwhile ends it at its
 * next step.
 */
struct amb_segment_lease_pass {
    int fd;
    uint64_t size, step;
    uint64_t done; /* bytes */
    _Atomic bool is_over;
    enum amb_status status;
};

struct amb_segment_lease {
    struct amb_segment *segment;
    struct amb_shard *shard;
    struct amb_lease_book *book; /* NULL: its session has ended, or the shard's own */
    enum amb_segment_lease_state state;
    uint64_t slot;                       /* bytes */
    struct amb_segment_lease_pass *pass; /* under way, or NULL */
    uint32_t slots;                      /* in all */
    uint32_t commits;                    /* that name it and are not over */
    bool is_quarantined;                 /* its client's process may still write there */
    bool is_own;                         /* the shard's */
    struct amb_party *gpu_party;         /* charged for its GPU memory; NULL: host, or is_own */
    int64_t used_ns;                     /* of the shard's own: when a slot of it was taken last, */
    int64_t spoiled_ns;                  /* when a transfer into it failed; 0: never */
    /* of_book: of book->leases, or of shard->gpuslots.leases, where it is the shard's own.
     * of_shard: of shard->leases.all. */
    struct amb_list_node of_book, of_shard;
    uint64_t taken[]; /* a bit a slot */
};

/* Would such a lease be within the limits? *size: the bytes of its segment. EINVAL, ELIMIT, with
 * the reason in *why, a static text. */
AMB_MUST_CHECK enum amb_status amb_segment_lease_check(const struct amb_shard *shard,
                                                       const struct amb_lease_book *book,
                                                       uint64_t slot, uint32_t slots,
                                                       uint64_t *size, const char **why);
/* Begins a lease that was checked, with `size` bytes that the caller has taken of the budget. They
 * are the lease's, also on failure. Its segment is of the main trust group. Then a pass. ENOMEM,
 * ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_segment_lease_open(struct amb_shard *shard,
                                                      struct amb_lease_book *book, uint64_t slot,
                                                      uint32_t slots, uint64_t size,
                                                      struct amb_segment_lease **out);
/*
 * The same in GPU memory, checked and taken from the pool here: the lease is OFFERED. A session has
 * at most half of a pool's size of it. EINVAL, ELIMIT, ENOMEM, ECUDA, with the reason in *why.
 */
AMB_MUST_CHECK enum amb_status
amb_segment_lease_open_gpu(struct amb_shard *shard, struct amb_lease_book *book,
                           struct amb_gpu_pool *pool, uint64_t slot, uint32_t slots,
                           struct amb_segment_lease **out, const char **why);
/* The same for the shard itself, which is its only writer: SEALED at once. ENOMEM, also when the
 * shards have half of the pool. */
AMB_MUST_CHECK enum amb_status amb_segment_lease_open_own(struct amb_shard *shard,
                                                          struct amb_gpu_pool *pool, uint64_t slot,
                                                          uint32_t slots,
                                                          struct amb_segment_lease **out);
/* The pass that the lease's state asks for begins. *pass stays where it is until
 * amb_segment_lease_pass_end, or amb_segment_lease_pass_fini if the lease is gone by then. ELIMIT:
 * no descriptor, the lease is closed. */
AMB_MUST_CHECK enum amb_status amb_segment_lease_pass_begin(struct amb_segment_lease *lease,
                                                            struct amb_segment_lease_pass *pass);
/* Its next part, some milliseconds' worth. Any thread. False: it has ended. */
bool amb_segment_lease_pass_step(struct amb_segment_lease_pass *pass);
void amb_segment_lease_pass_fini(struct amb_segment_lease_pass *pass);
/* It is OFFERED or SEALED now. On failure, of the pass or here, the lease is closed. */
AMB_MUST_CHECK enum amb_status amb_segment_lease_pass_end(struct amb_segment_lease *lease,
                                                          struct amb_segment_lease_pass *pass);
/* The client has mapped it: seals it; then, in host memory, a pass. EFORBIDDEN: the client has
 * meddled with it, and the lease is closed. ESTATE. */
AMB_MUST_CHECK enum amb_status amb_segment_lease_mapped(struct amb_segment_lease *lease);
/* No commit will name it any more. It may be gone. */
void amb_segment_lease_close(struct amb_segment_lease *lease);
/* By id: NULL if there is none, or it is closed. */
struct amb_segment_lease *amb_segment_lease_find(const struct amb_lease_book *book,
                                                 uint64_t segment);

/* A commit names it. */
static inline void amb_segment_lease_ref(struct amb_segment_lease *lease)
{
    lease->commits++;
}

/* Each of these three may be the end of the lease. */

/* A commit that names it is over. */
void amb_segment_lease_unref(struct amb_segment_lease *lease);
/* Its session ends, which closes it. is_quarantined: its client's process may still write there, */
void amb_segment_lease_orphan(struct amb_segment_lease *lease, bool is_quarantined);
/* ... and is gone. */
void amb_segment_lease_release(struct amb_segment_lease *lease);
/* All that are left, in use or not: the shard ends. */
void amb_segment_lease_fini(struct amb_shard *shard);
