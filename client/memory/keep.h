/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a lease that the program keeps beyond the commit. It stays mapped, and nobody else gets
 * it, until the program gives it back.
 *
 *   kept ─► committed ─► the last reader is done: back ─► unkept ─► free
 *      │                          └─ unkept before: as if it had not been kept
 *      └─► abandoned, or the commit has failed: back at once
 *
 * A kept slot that is back counts as taken, as if it were leased again. So its segment is not given
 * back to the broker, and at the end of a session it stays mapped. A segment without kept slots has
 * one number to look at.
 *
 * Threads: under the connection's lock. Memory: kept ones are recycled; a segment's table of them
 * is allocated with the first.
 */
#pragma once

#include "client/conn/state/leases.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_conn;

struct amb_keep {
    struct amb_conn *conn;
    struct amb_place place; /* slots NULL: private memory, the next two */
    void *bytes;
    uint64_t room;
    bool is_back;          /* no lease and no message lies there any more */
    bool is_unkept;        /* private memory, and not back: goes when it is */
    struct amb_keep *next; /* unused ones */
};

/* Keeps the memory of a lease, which is out: a slot, or `bytes` where place.slots is NULL. *out:
 * what an earlier call for this lease gave, or NULL. ESTATE: it is kept; ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_keep_begin(struct amb_conn *conn, const struct amb_place *place,
                                              void *bytes, uint64_t room, struct amb_keep **out);
/* The program gives it back. */
void amb_keep_end(struct amb_keep *keep);

/* Is this slot kept? Then it is back from here on, and stays taken. */
bool amb_keep_holds(const struct amb_place *place);
/* A chain of slots that are free: takes out those that are kept. Returns the rest. */
uint32_t amb_keeps_sift(struct amb_slots *slots, uint32_t head);
/* Private memory of a lease comes back; keep NULL: it is not kept. */
void amb_keep_return(struct amb_conn *conn, struct amb_keep *keep, void *bytes, uint64_t room);

/* Frees unused ones. */
void amb_keeps_fini(struct amb_conn *conn);
