/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of a worker's entries. All entries of a worker are bounded, and those that a blocking
 * reader stands on do not go. So nobody may have all of them. Of 64 parts, in use or reserved:
 *
 *   0 ──────────── 44 ──────────── 52 ─────────── 60 ──────────────── 64
 *     no shares       windows open    batches come    parties that have few
 *                     by shares       of all
 *
 * A share counts the entries on one worker that are of its party, or of its user. They are roots,
 * shadows and copies of messages that it published, and those reserved for its windows.
 *
 * The windows of a party open while it has less than half of what others leave of the parts 45 to
 * 52. Those of a user open while it has less than limits.user_share per cent of that. Batches that
 * no entry is reserved for come in up to 60 parts, for they were granted before. A party that has
 * at most a part goes on beyond that, further if its user has at most four.
 *
 * An entry knows its party. So the account outlives sessions, and a client that comes back meets
 * what it has left.
 *
 * Threads: the shard's worker. Memory: one allocation for each worker where a party or user has
 * had a session or an entry. It is freed with the party or user, on any thread (party.h).
 */
#pragma once

#include "broker/base/party.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_entry_share {
    size_t used;                   /* entries, those that are reserved too */
    uint32_t sessions;             /* of the party, on this worker; of a user: 0 */
    struct amb_party *party;       /* a reference while it has entries or sessions; else NULL */
    struct amb_entry_share *above; /* its user's; of a user: NULL, and so is party */
};

/* A batch, or a window for batches: whose entries it takes. */
struct amb_entry_claim {
    const struct amb_entry_share *share; /* NULL: nobody's */
    bool has_entry; /* one is reserved for the batch; of a window it is not looked at */
};

/* The party's share here, for one of its sessions until amb_entry_share_close. NULL: no memory. */
struct amb_entry_share *amb_entry_share_open(struct amb_shard *shard, struct amb_party *party);
/* Sets *share to NULL, and does nothing else where it is NULL already. */
void amb_entry_share_close(struct amb_entry_share **share);

/* So many more entries, or fewer (modulo 2^64), of the party and its user, while it has a session
 * here. */
static inline void amb_entry_share_add(struct amb_entry_share *share, size_t count)
{
    share->used += count;
    share->above->used += count;
}

/* A fresh root is of the party of its session's share. share NULL: nobody's. */
static inline void amb_entry_share_take(struct amb_entry_share *share, struct amb_entry *entry)
{
    if (share != NULL) {
        entry->party = share->party;
        amb_entry_share_add(share, 1);
    }
}

/* A shadow or a copy, fresh and at its home, is of the party that published `of`. The caller's
 * worker has a reference to `of`. Without memory for a share it is nobody's. */
void amb_entry_share_take_copy(struct amb_entry *copy, const struct amb_entry *of);

/* The last entry has ended, and no session is left: the share gives its party up. */
void amb_entry_share_let_go(struct amb_entry_share *share);

/* The entry ends, at home. */
static inline void amb_entry_share_put(const struct amb_entry *entry)
{
    if (entry->party == NULL) {
        return;
    }
    struct amb_entry_share *share = entry->party->entry_shares->of[entry->home->index];
    amb_assert(share->used > 0 && share->above->used > 0);
    share->used--;
    share->above->used--;
    if (__builtin_expect(share->used == 0 && share->sessions == 0, 0)) {
        amb_entry_share_let_go(share);
    }
}

/* How many more entries the share leaves to its party. SIZE_MAX for share NULL. */
size_t amb_entry_share_left(const struct amb_shard *shard, const struct amb_entry_share *share);
/* How many of these there are for windows, and for all that can wait. */
size_t amb_entry_share_room(const struct amb_shard *shard, const struct amb_entry_share *share);
/* Is nothing left for the batch? Its own entry is counted already. */
bool amb_entry_share_is_used_up(const struct amb_shard *shard, const struct amb_entry_claim *claim);
/* Are so few entries in use or reserved that nobody has a share of them? */
bool amb_entry_shares_are_idle(const struct amb_shard *shard);
/* Has the party that published the entry, which `shard` holds, no more left there for a shadow? */
bool amb_entry_share_is_over(const struct amb_shard *shard, const struct amb_entry *entry);
