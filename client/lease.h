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

#include "client/leases.h"
#include "wire/base/list.h"

struct amb_conn;
struct amb_pub;

struct amb_lease {
    struct amb_conn *conn;
    struct amb_pub *pub;       /* NULL: closed; under the connection's lock */
    struct amb_list_node node; /* in pub->leases, under the connection's lock */
    struct amb_place place;    /* slots NULL: private memory */
    void *bytes;
    uint64_t len, room;
    struct amb_lease *next; /* unused ones */
};

/* A publisher is closed: its leases can only be given back. Connection's lock held. */
void amb_leases_orphan(struct amb_pub *pub);
/* Frees unused ones. */
void amb_lease_cache_fini(struct amb_conn *conn);
