/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purses: a worker's share of a user's account (broker/base/account.h). A purse is of all sessions
 * that the user has on this worker.
 *
 * Host bytes: windows that stand open, and batches that came, until their memory is free. A purse
 * takes them from the account in pieces of AMB_PURSE_PIECE. Rates: messages and bytes that came are
 * put on the bill when a window is asked for. A bill that is not over yet keeps windows shut. Where
 * no rate has a limit, there is a bill each AMB_PURSE_BILL_NS at most.
 *
 * So a batch costs two additions, and the account is asked where windows open. Tests of filters are
 * put on the bill in pieces (sift.h). Without a users file there are no purses.
 *
 * Threads: the shard's worker; the account is atomic. Memory: one allocation, as long as a session
 * refers to it or anything is held.
 */
#pragma once

#include "broker/base/account.h"
#include "wire/base/assert.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_PURSE_PIECE (UINT64_C(64) << 10)
/* So much of the account stays here, though nothing is held, for what comes next. */
#define AMB_PURSE_SPARE (2 * AMB_PURSE_PIECE)

/* Between two bills without a limit. A rate that gets one by a reload is held after so long. */
#define AMB_PURSE_BILL_NS INT64_C(1000000)

struct amb_party;
struct amb_shard;

struct amb_purse {
    struct amb_list_node node; /* of shard->purses */
    const struct amb_shard *shard;
    struct amb_party *party; /* a reference to one of its user's */
    struct amb_account *account;
    uint64_t refs;        /* of sessions */
    uint64_t held, taken; /* host bytes; taken: of the account, in pieces */
    uint64_t spare;       /* ... and so much more may stay taken. 0: no session is left */
    /* The account was used up by the last piece. Batches take pieces past its limit, too, and the
     * rest of such a piece is no room. */
    bool is_past;
    uint64_t msgs, bytes;          /* that came, and are not on the bill yet */
    int64_t billed_ns;             /* the last bill, */
    bool is_rated;                 /* ... when a rate had a limit, */
    bool is_bounded;               /* ... or host bytes had one */
    uint64_t tests;                /* of filters: the same */
    bool is_sifting_late;          /* the bill for tests was not over when it was last asked */
    uint64_t mapped, mapped_taken; /* held in place by its sessions; of the account, in pieces, */
    uint64_t map_spare;            /* ... of which so much more may stay */
    uint64_t gpu, gpu_taken;       /* slots in GPU memory that its messages lie in: the same */
};

/* Has its user quotas? NULL: no. */
bool amb_purse_is_due(const struct amb_party *party);
/* That of the party's user, made if there is none, with a reference. NULL: none is due, or there is
 * no memory. */
struct amb_purse *amb_purse_find(struct amb_shard *shard, struct amb_party *party);
/* Of a session; with the last one what came is put on the bill. Sets *purse to NULL, and does
 * nothing else where it is NULL already. */
void amb_purse_unref(struct amb_purse **purse);
/* More is held than was taken, or much less: pieces come from the account, or go back. The last
 * bytes end a purse that has no session. */
void amb_purse_take(struct amb_purse *purse);
void amb_purse_return(struct amb_purse *purse);
/* May it hold so many more? */
bool amb_purse_has_room(const struct amb_purse *purse, uint64_t bytes);
/* The row of the quota that keeps a window for `bytes` shut; AMB_QUOTA_COUNT: none. */
enum amb_quota amb_purse_obstacle(struct amb_purse *purse, uint64_t bytes, int64_t now_ns);

/* So many tests of filters it may do now, at most `most`; 0: the bill for them is not over. */
uint32_t amb_purse_tests(struct amb_purse *purse, uint32_t most, int64_t now_ns);

/* Something begins to wait for that row: counted as refused. */
void amb_purse_note_blocked(struct amb_purse *purse, enum amb_quota row, int64_t now_ns);

/* How many more bytes its sessions may hold in place. */
uint64_t amb_purse_map_room(const struct amb_purse *purse);

/* How far a window may stand open, so that a rate is not left behind by what is in it. `most`: with
 * no limit on rates. */
uint64_t amb_purse_window(const struct amb_purse *purse, uint64_t most);

/* Of a window: memory is allocated in sizes that are up to a quarter more. */
static inline uint64_t amb_purse_cost(uint64_t bytes)
{
    return bytes + bytes / 4;
}

/* So many host bytes more, or less. A batch does both, so both are short. */
static inline void amb_purse_hold(struct amb_purse *purse, uint64_t bytes)
{
    purse->held += bytes;
    if (__builtin_expect(purse->held > purse->taken, 0)) {
        amb_purse_take(purse);
    }
}

static inline void amb_purse_let_go(struct amb_purse *purse, uint64_t bytes)
{
    amb_assert(purse->held >= bytes);
    purse->held -= bytes;
    if (__builtin_expect(purse->taken - purse->held > purse->spare, 0)) {
        amb_purse_return(purse);
    }
}

/* Takes what is missing of the account, or gives back. */
void amb_purse_map_settle(struct amb_purse *purse);

/* So many bytes more that its sessions hold in place, or less (modulo 2^64). */
static inline void amb_purse_map(struct amb_purse *purse, uint64_t bytes)
{
    purse->mapped += bytes;
    if (__builtin_expect(purse->mapped_taken - purse->mapped > purse->map_spare, 0)) {
        amb_purse_map_settle(purse); /* A difference below 0 is a huge number, too. */
    }
}

/*
 * GPU memory: slots of the worker's own that messages lie in (gpuslot.h). A message asks whether
 * one of that size may be taken; AMB_QUOTA_GPU_BYTES counts the refusal. Its entry lets go of the
 * slot first, then of its host bytes. So the purse is there for as long as the slot is.
 */
bool amb_purse_may_land(struct amb_purse *purse, uint64_t bytes);
void amb_purse_land(struct amb_purse *purse, uint64_t bytes);
void amb_purse_lift(struct amb_purse *purse, uint64_t bytes);

/* A batch has come. */
static inline void amb_purse_note(struct amb_purse *purse, uint32_t msgs, uint64_t bytes)
{
    purse->msgs += msgs;
    purse->bytes += bytes;
}
