/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap accounts: the heap that one session makes the broker use. Publishers, subscriptions, tables
 * of deliveries, takes, names and unread answers are charged; limits.max_heap_per_session bounds
 * their sum. A session has an account with its worker and one with the control thread. Each has a
 * share of the limit, so no charge crosses threads.
 *
 *   charge   before an object is made: past the limit it is not made, and the request is refused
 *   go_on    the same for what keeps a session going: only the session's own limit refuses it
 *   take     for an object that is there already: the account may be past its limit for a while
 *   give     the object is gone
 *
 * A payer is the account of the session's user, whose quota `heap` holds over all of its sessions.
 * It is charged in pieces of AMB_HEAP_PIECE. It never refuses anything that a session has already.
 *
 * Tables that grow with messages are charged by the table, not by the message.
 *
 * Threads: the account's owner. Memory: none of its own.
 */
#pragma once

#include "wire/base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_HEAP_KEY "limits.max_heap_per_session"
/* Bytes that the heap adds to each allocation. */
#define AMB_HEAP_OVERHEAD 16u

/* So much of a payer's is taken at once, and kept though it is not in use. */
#define AMB_HEAP_PIECE (UINT64_C(4) << 10)
#define AMB_HEAP_SPARE (2 * AMB_HEAP_PIECE)

struct amb_account;

struct amb_heap_account {
    uint64_t bytes, limit;
    uint64_t peak;
    uint64_t refused;          /* charges past the limit */
    uint64_t taken;            /* of the payer's, in pieces; without one all that there is */
    struct amb_account *payer; /* NULL: none */
};

/* Of limits.max_heap_per_session, the control thread's quarter and the worker's rest. */
static inline uint64_t amb_heap_control_share(uint64_t limit)
{
    return limit / 4;
}

static inline uint64_t amb_heap_worker_share(uint64_t limit)
{
    return limit - limit / 4;
}

static inline void amb_heap_init(struct amb_heap_account *account, uint64_t limit)
{
    *account = (struct amb_heap_account){.limit = limit, .taken = UINT64_MAX};
}

/* For the inline functions: more than was taken is in use, or much less. */
void amb_heap_take_piece(struct amb_heap_account *account);
void amb_heap_give_piece(struct amb_heap_account *account);
bool amb_heap_payer_has_room(const struct amb_heap_account *account, uint64_t bytes);

static inline void amb_heap_take(struct amb_heap_account *account, uint64_t bytes)
{
    account->bytes += bytes;
    account->peak = account->bytes > account->peak ? account->bytes : account->peak;
    if (__builtin_expect(account->bytes > account->taken, 0)) {
        amb_heap_take_piece(account);
    }
}

static inline void amb_heap_give(struct amb_heap_account *account, uint64_t bytes)
{
    amb_assert(account->bytes >= bytes);
    account->bytes -= bytes;
    if (__builtin_expect(account->payer != NULL, 0) &&
        account->taken - account->bytes > AMB_HEAP_SPARE) {
        amb_heap_give_piece(account);
    }
}

/* Of the session's own limit alone. */
static inline bool amb_heap_may_go_on(const struct amb_heap_account *account, uint64_t bytes)
{
    return account->bytes <= account->limit && bytes <= account->limit - account->bytes;
}

static inline bool amb_heap_has_room(const struct amb_heap_account *account, uint64_t bytes)
{
    return amb_heap_may_go_on(account, bytes) &&
           (bytes <= account->taken - account->bytes || amb_heap_payer_has_room(account, bytes));
}

/* From here on that account pays, for what is charged already too. payer NULL: nobody does. It has
 * to outlive the heap account, or amb_heap_leave. */
void amb_heap_pay(struct amb_heap_account *account, struct amb_account *payer);
/* The payer pays no more. Harmless twice. */
void amb_heap_leave(struct amb_heap_account *account);

/* False: past the session's limit, and nothing is charged. */
bool amb_heap_go_on(struct amb_heap_account *account, uint64_t bytes);
/* False: past a limit, and nothing is charged. */
bool amb_heap_charge(struct amb_heap_account *account, uint64_t bytes);
