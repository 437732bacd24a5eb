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

#include "client/conn/state/leases.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <amb/amb.h>

struct amb_conn;
struct amb_gpu;
struct amb_keep;
struct amb_pub;

struct amb_lease {
    struct amb_conn *conn;
    struct amb_pub *pub;       /* NULL: closed; under the connection's lock */
    struct amb_list_node node; /* in pub->lease.out, under the connection's lock */
    struct amb_place place;    /* slots NULL: private memory */
    void *bytes;               /* NULL: in GPU memory */
    struct amb_gpu *gpu;       /* then: which; NULL: host memory */
    struct amb_gpu *pin;       /* host memory that is pinned: by whose driver; NULL: it is not */
    struct amb_keep *keep;     /* of its memory; NULL: none */
    enum amb_mem mem;          /* that the program has the payload in, for its record */
    uint64_t len, room;
    struct amb_lease *next; /* unused ones */
};

/* As amb_lease, in the memory of a GPU, whatever the publisher leases; gpu NULL: in plain host
 * memory. Where there is no memory for leases at all, the result is the reason, and not yet
 * the connection's last error; amb_gpu_room_of says more. ENOTSUP, ENOTFOUND, EFORBIDDEN, ECUDA,
 * ENOMEM, ELIMIT. */
enum amb_status amb_lease_on(struct amb_pub *pub, struct amb_gpu *gpu, uint64_t len,
                             int64_t timeout_ns, struct amb_lease **out);
/* A lease ends: the handle is gone, its memory is *out's. Connection's lock held. */
void amb_lease_take_back(struct amb_lease *lease, struct amb_lease *out);
/* Gives back memory that was not committed. Connection's lock held. */
void amb_lease_free_memory(const struct amb_lease *own);
/* A publisher is closed: its leases can only be given back. Connection's lock held. */
void amb_leases_orphan(struct amb_pub *pub);
/* Frees unused ones. */
void amb_lease_cache_fini(struct amb_conn *conn);
