/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tally: what becomes of a batch whose publisher wants to know when it has been delivered.
 *
 *   publisher's worker      topic's worker                     another worker that reads it
 *   made ──with the entry──► begins: so many readers ──lent──► a tally of its own
 *   SETTLED ◄──at the end── told by each, delivered ◄────────── at its end
 *
 * It is open while something may still add to `delivered`. That is the log that holds the batch,
 * until all readers have passed it or it was dropped. It is deliveries, until they are released,
 * and takes of queues, until they are acknowledged or given up. And it is tallies of other workers.
 * A delivery that is missing at the end was dropped: nobody counts drops one by one.
 *
 * Only batches of publishers that ask for it have one, and batches that are traced (trace.h): all
 * others pay a comparison a batch and reader.
 *
 * Threads: its worker; the mail crosses. Memory: of the pool of the worker that made it.
 */
#pragma once

#include "broker/shard/entry.h"

/* Of one worker; a batch that finds none is refused with ELIMIT. */
#define AMB_TALLIES_MAX 65536u

struct amb_tally {
    struct amb_mail mail; /* its last word */
    amb_mail_fn on_end;   /* ... and who hears it */
    struct amb_shard *home;
    struct amb_tally *parent; /* of another worker's: whose log lent the batch */
    uint32_t open;
    uint32_t count;            /* messages of the batch */
    uint32_t readers;          /* subscriptions that read the topic when it came; a group is one */
    uint32_t ticket;           /* of the batch in a trace (trace.h); 0: it is not traced */
    uint64_t delivered;        /* of count * readers messages */
    uint64_t first_seq, above; /* in the topic; and the part of that in its other priorities */
    struct amb_origin origin;
};

/* Nothing is allocated yet. */
void amb_tallies_init(struct amb_shard *shard);
/* So many can be had without the heap, as far as there is memory. */
void amb_tallies_reserve(struct amb_shard *shard, uint32_t count);
/* For an entry that is about to be routed, at the publisher's worker. on_end gets it back there,
 * and puts it away. False: the entry is refused already, or there is no room for one. */
bool amb_tally_try(struct amb_shard *shard, struct amb_entry *entry, amb_mail_fn on_end);
/* The same; without room for one the entry's status is ELIMIT. */
void amb_tally_make(struct amb_shard *shard, struct amb_entry *entry, amb_mail_fn on_end);
void amb_tally_put(struct amb_tally *tally);
/* At home, just appended to a log with so many readers. Open for the log. */
void amb_tally_begin(struct amb_entry *entry, uint32_t readers);
/* It was not appended after all. */
void amb_tally_cancel(struct amb_shard *shard, struct amb_entry *entry);
/* Of an entry that is lent, for its shadow: open for the borrower's log. */
void amb_tally_lend(struct amb_shard *shard, const struct amb_entry *entry,
                    struct amb_entry *shadow);
/* One thing less is open; `msgs` of it were delivered. `shard` is the caller's. */
void amb_tally_settle(struct amb_shard *shard, struct amb_tally *tally, uint64_t msgs);
/* Messages that were not delivered to a reader; at the end. */
uint64_t amb_tally_dropped(const struct amb_tally *tally);

/* The tally that counts the deliveries of a reader that reads from sequence `counts_from` on. NULL:
 * there is none, or the reader came after the batch. */
static inline struct amb_tally *amb_tally_of(const struct amb_entry *entry, uint64_t counts_from)
{
    return entry->first_seq >= counts_from ? entry->tally : NULL;
}
