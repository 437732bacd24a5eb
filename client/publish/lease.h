/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lease: memory for one payload, written in place by the program and published without a copy.
 * It lies in a slot of a lease segment, or, where there is none, in private memory whose bytes are
 * transferred when it is committed.
 *
 * Threads: as each field says. Memory: recycled; a lease holds the connection, so its bytes stay
 * writable until it is committed or abandoned, whatever is closed before that.
 */
#pragma once

#include "client/conn/leases.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

struct amb_conn;
struct amb_gpu;
struct amb_gpu_fence;
struct amb_out;
struct amb_pub;

struct amb_lease {
    struct amb_conn *conn;
    struct amb_pub *pub;       /* NULL: closed; under the connection's lock */
    struct amb_list_node node; /* in pub->leases, under the connection's lock */
    struct amb_place place;    /* slots NULL: private memory */
    void *bytes;               /* NULL: in GPU memory */
    struct amb_gpu *gpu;       /* then: which; NULL: host memory */
    struct amb_gpu *pin;       /* host memory that is pinned: by whose driver; NULL: it is not */
    uint64_t len, room;
    struct amb_lease *next; /* unused ones */
};

/* As amb_lease, in the memory of a GPU, whatever the publisher leases; gpu NULL: in plain host
 * memory. Where there is none for leases at all, the
 * reason, not told: ENOTSUP, ENOTFOUND, EFORBIDDEN, ECUDA, ENOMEM, ELIMIT; amb_gpu_room_of says
 * more. */
enum amb_status amb_lease_on(struct amb_pub *pub, struct amb_gpu *gpu, uint64_t len,
                             int64_t timeout_ns, struct amb_lease **out);
/* As amb_lease_commit, in GPU memory, when the fence (NULL: none) is over, which it takes. */
enum amb_status amb_lease_commit_after(struct amb_lease *lease, const struct amb_out *message,
                                       struct amb_gpu_fence *fence, uint64_t *seq);
/* A publisher is closed: its leases can only be given back. Connection's lock held. */
void amb_leases_orphan(struct amb_pub *pub);
/* Frees unused ones. */
void amb_lease_cache_fini(struct amb_conn *conn);
