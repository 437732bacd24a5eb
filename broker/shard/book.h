/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A book is one session's account of its leases (segment_lease.h) and of its commits. A commit
 * names slots of one lease; it is over when the last reader of its batch is done.
 *
 * Commits are numbered per session; its client is told the number up to which all are over, and
 * those that are over before older ones. Commits that are not over are in a list, so all between
 * two neighbours of it are over. The older neighbour notes which of those are to be told, as one
 * range. So what a client leaves unread costs nothing, however many commits that are.
 *
 * Threads: the shard's worker. Memory: none; commits are parts of their entries' payloads.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_heap_account;
struct amb_segment_lease;
struct amb_party;

struct amb_lease_book {
    struct amb_list_node leases;  /* struct amb_segment_lease.of_book */
    struct amb_list_node commits; /* struct amb_commit.node: not over, in order */
    struct amb_list_node untold;  /* struct amb_commit.news: those with something to be told */
    uint64_t committed;           /* number of the last commit */
    uint64_t told;                /* the client knows that commits up to it are over */
    bool has_news;                /* something is over since the client was told, */
    bool is_late;                 /* ... and it is told later: its user is past a quota */
    uint64_t bytes;               /* of the leases in host memory */
    uint64_t gpu_bytes;           /* and in that of GPUs */
    uint32_t lease_count, slots;
    struct amb_party *party;       /* that is charged: of its session; or NULL */
    struct amb_heap_account *heap; /* the session's */
};

/* Part of a payload (payload.h). */
struct amb_commit {
    struct amb_segment_lease *lease; /* NULL: it is over, or was none */
    uint64_t number;
    const uint64_t *offsets; /* of its messages */
    uint32_t taken;          /* it has the slots of so many of them */
    uint32_t untold;         /* over, but not told: so many commits, of those between this */
    uint64_t untold_from;    /* one and the next that is not over; this is the first */
    struct amb_list_node node, news; /* of its book's lists */
};

void amb_lease_book_init(struct amb_lease_book *book, struct amb_heap_account *heap);
/* The session ends. is_quarantined: its client's process may still write; the memory stays charged
 * until amb_lease_book_release. Commits that were to be told must have been taken. */
void amb_lease_book_end(struct amb_lease_book *book, bool is_quarantined);
/* Bytes in quarantine; 0 before the end. */
uint64_t amb_lease_book_quarantined(const struct amb_lease_book *book);
/* The process is gone. */
void amb_lease_book_release(struct amb_lease_book *book);

/* The next commit names nothing and is over at once. */
void amb_commit_skip(struct amb_lease_book *book);
/* The next commit begins. */
void amb_commit_begin(struct amb_lease_book *book, struct amb_commit *commit,
                      struct amb_segment_lease *lease);
/* Takes the slot at `offset`, of the commit's next message, which has so many bytes. EPROTO: there
 * is none, it is too small, or it is taken. */
AMB_MUST_CHECK enum amb_status amb_commit_take(struct amb_commit *commit, uint64_t offset,
                                               uint64_t padded);
/* Nothing of it is read in place: its slots are not needed any more, though it goes on. */
void amb_commit_untake(struct amb_commit *commit);
/* Its slots are free. Harmless twice. */
void amb_commit_over(struct amb_commit *commit);
/* The number up to which all commits are over. */
uint64_t amb_lease_book_over(const struct amb_lease_book *book);
/* A range of commits beyond that number which are over and that the client is to be told of. It
 * may name some that were told before. False: there is none left. */
bool amb_lease_book_next(struct amb_lease_book *book, uint64_t *number, uint32_t *count);
