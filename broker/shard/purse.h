/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purses: a worker's share of a user's account (broker/base/account.h). A purse is of all sessions
 * that the user has on this worker.
 *
 *   host bytes   windows that stand open, and batches that came, until their memory is free. A
 * purse takes them from the account in pieces of AMB_PURSE_PIECE rates        messages and bytes
 * that came are put on the bill when a window is asked for. A bill that is not over yet keeps
 * windows shut
 *
 * So a batch costs two additions, and the account is asked where windows open. Without a users file
 * there are no purses.
 *
 * Threads: the shard's worker; the account is atomic. Memory: one allocation, as long as a session
 * or a batch refers to it.
 */
#pragma once

#include "broker/base/account.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_PURSE_PIECE (UINT64_C(64) << 10)

struct amb_party;
struct amb_shard;

struct amb_purse {
    struct amb_list_node node; /* of shard->purses */
    struct amb_party *party;   /* a reference to one of its user's */
    struct amb_account *account;
    uint64_t refs;
    uint64_t held, taken; /* host bytes; taken: of the account, in pieces */
    uint64_t msgs, bytes; /* that came, and are not on the bill yet */
};

/* That of the party's user, made if there is none, with a reference. NULL: it needs none, or there
 * is no memory. */
struct amb_purse *amb_purse_find(struct amb_shard *shard, struct amb_party *party);
/* Sets *purse to NULL, and does nothing else where it is NULL already. */
void amb_purse_unref(struct amb_purse **purse);
/* So many host bytes more, or less. */
void amb_purse_hold(struct amb_purse *purse, uint64_t bytes);
void amb_purse_let_go(struct amb_purse *purse, uint64_t bytes);
/* May it hold so many more? */
bool amb_purse_has_room(const struct amb_purse *purse, uint64_t bytes);
/* The row of the quota that keeps a window for `bytes` shut; AMB_QUOTA_COUNT: none. */
enum amb_quota amb_purse_obstacle(struct amb_purse *purse, uint64_t bytes, int64_t now_ns);

/* How far a window may stand open, so that a rate is not left behind by what is in it. `most`: with
 * no limit on rates. */
uint64_t amb_purse_window(const struct amb_purse *purse, uint64_t most);

/* Of a window: memory is allocated in sizes that are up to a quarter more. */
static inline uint64_t amb_purse_cost(uint64_t bytes)
{
    return bytes + bytes / 4;
}

/* A batch has come. */
static inline void amb_purse_note(struct amb_purse *purse, uint32_t msgs, uint64_t bytes)
{
    purse->msgs += msgs;
    purse->bytes += bytes;
}
