/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap accounts: the heap that one session makes the broker use. Publishers, subscriptions, tables
 * of deliveries, takes, names and unread answers are charged; limits.max_heap_per_session bounds
 * their sum. A session has an account with its worker and one with the control thread. Each has a
 * share of the limit, so no charge crosses threads.
 *
 *   charge   before an object is made: past the limit it is not made, and the request is refused
 *   take     for an object that is there already: the account may be past its limit for a while
 *   give     the object is gone
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

struct amb_heap_account {
    uint64_t bytes, limit;
    uint64_t peak;
    uint64_t refused; /* charges past the limit */
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
    *account = (struct amb_heap_account){.limit = limit};
}

static inline void amb_heap_take(struct amb_heap_account *account, uint64_t bytes)
{
    account->bytes += bytes;
    account->peak = account->bytes > account->peak ? account->bytes : account->peak;
}

static inline void amb_heap_give(struct amb_heap_account *account, uint64_t bytes)
{
    amb_assert(account->bytes >= bytes);
    account->bytes -= bytes;
}

static inline bool amb_heap_has_room(const struct amb_heap_account *account, uint64_t bytes)
{
    return account->bytes <= account->limit && bytes <= account->limit - account->bytes;
}

/* False: past the limit, and nothing is charged. */
bool amb_heap_charge(struct amb_heap_account *account, uint64_t bytes);
