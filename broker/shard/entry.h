/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry: one batch in broker memory, as one worker knows it.
 *
 *   worker P (publisher's)         worker T (topic's)            worker S (a subscriber's)
 *   root entry ── handed over ──►  the same entry, in the log ── lent ──►  shadow entry
 *   disposes of it ◄── home ──────  at 0 references  ◄── home ──────────── at 0 references
 *
 * References are plain integers of the worker that holds the entry at the time. At zero an entry
 * goes home, by mail if home is another worker. A root ends its payload (payload.h); a shadow drops
 * the one reference that it holds on its parent. So a buffer is freed by the worker that allocated
 * it, whatever the way it took.
 *
 *                 data                         meta
 *   a batch       its buffer: the payloads     behind them: records, blobs
 *   a leased one  where its segment begins     its buffer: records, offsets from `data`, blobs
 *
 * Threads: the holder. Memory: entries come from their home's pool.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/shard/payload.h"
#include "wire/codec/frame.h"

#include <stdint.h>

struct amb_config;
struct amb_party;
struct amb_purse;
struct amb_tally;
struct amb_shard;
struct amb_topic;

/* Its publisher, by value: a session may be gone when the receipt comes. */
struct amb_origin {
    uint32_t session, generation;
    uint32_t handle, opened; /* publisher handle, and which opening of it */
    uint64_t batch;          /* its number */
};

struct amb_entry {
    uint32_t refs;
    uint32_t count; /* messages */
    uint32_t meta_len;
    uint32_t topic; /* id, for hand-overs */
    uint64_t data_len;
    uint64_t charge; /* bytes of memory that it keeps from others; 0: those of its body */
    const uint8_t *data, *meta;
    /* Leased, with properties: each message's record and blob in a row, as a body of its own has
     * them. Else NULL. */
    const uint8_t *singles;
    bool is_leased;
    uint16_t trace;           /* lower bits of its ticket (trace.h), until it is routed; 0: none */
    uint32_t lease_user;      /* leased: the user that may read it in place; or AMB_USER_ANY */
    bool has_window;          /* its bytes are of its publisher's window */
    bool has_ttl;             /* some of its messages say how long they are worth something */
    bool is_whole;            /* of a root that is pending */
    bool is_of_gpu;           /* its payloads lie on a GPU, or lay there when they were published */
    uint16_t twin_state;      /* enum amb_twin_state */
    uint16_t twin_refused_ms; /* a shadow's: when home had no memory for it, by shard->now_ns */
    struct amb_segment *segment; /* of data */
    /* Of its records and properties, and of payloads that are not leased: copies stay in memory of
     * that group. */
    const struct amb_trust_group *group;
    uint64_t first_seq;  /* given by the log, as is */
    uint64_t above;      /* messages that came before it in the topic's other priorities */
    uint64_t log_offset; /* bytes appended to the log before it */
    int64_t time_ns;     /* when it was whole, ns since 1970 */
    int64_t expires_ns;  /* its log's: when the first of them expires; 0: none does */
    int64_t arrived_ns;  /* ... and when home's took it in; both by shard->now_ns. A log is
                            in this order, and not in that of time_ns */
    struct amb_shard *home;
    struct amb_entry *parent;   /* of a shadow; NULL: a root. A dead letter has both: */
    struct amb_payload payload; /* memory of its own; home's */
    /* In GPU memory: its copy in host memory, the holder's; of one that is being made: of what.
     * Else NULL. */
    struct amb_entry *twin;
    struct amb_shard *twin_for;    /* of a shadow: whose it is */
    struct amb_entry *twin_wanted; /* shadows, elsewhere, that wait for it; the next of them; or
                                    * of the twins that are asked for at once */
    /* Its publisher waits for its delivery, and not all readers of this log have passed it. Else
     * NULL. */
    struct amb_tally *tally;
    struct amb_purse *purse; /* that holds purse_bytes of it; home's. NULL: none */
    uint64_t purse_bytes;
    struct amb_party *party; /* home's share of it counts the entry (entry_share.h); NULL: none */

    /* slow path */
    struct amb_list_node pending; /* root: in its publisher's order of arrival, until routed */
    uint64_t expect;              /* the sequence that it must get; 0: any */
    enum amb_status status;       /* the content of the receipt */
    uint32_t matched;
    struct amb_origin origin;
    struct amb_topic *lent_to; /* a shadow: the topic there */
    struct amb_mail mail;      /* hand-over, lending, going home: one at a time */
    struct amb_mail receipt;   /* to the publisher's worker: appended or refused */
    struct amb_mail grant;     /* to the publisher's worker: its bytes may be used again */
};

/* The table of its messages, `count` records. */
static inline const struct amb_record *amb_entry_records(const struct amb_entry *entry)
{
    return (const struct amb_record *)(const void *)entry->meta;
}

static inline uint64_t amb_entry_bytes(const struct amb_entry *entry)
{
    return entry->data_len + entry->meta_len;
}

/* Bytes of its publisher's window: without the offset that such a one has been given here. */
static inline uint64_t amb_entry_window(const struct amb_entry *entry)
{
    return amb_entry_bytes(entry) - (amb_payload_is_landed(&entry->payload) ? sizeof(uint64_t) : 0);
}

/* Its buffer has all of it (BUFFER, COPIED): data_len bytes of data, and the meta behind them. */
static inline void amb_entry_in_buffer(struct amb_entry *entry, enum amb_payload_kind kind)
{
    const struct amb_buf *buf = &entry->payload.buf;
    entry->payload.kind = kind;
    entry->data = buf->data;
    entry->meta = buf->data + entry->data_len;
    entry->segment = buf->segment;
    entry->charge = buf->cap + sizeof(*entry);
}

/* The publisher of `of` is charged for `copy`: its party for the entry, its user's purse for the
 * buffer. On the worker of `copy`, which has a reference to `of`. Without memory for a share or a
 * purse that one is not charged. */
void amb_entry_charge_copy(struct amb_entry *copy, const struct amb_entry *of);

/* Its data lies in slots of that segment (SLOTS, LANDED), for which it is charged so many bytes;
 * its buffer has the meta. */
static inline void amb_entry_in_slots(struct amb_entry *entry, enum amb_payload_kind kind,
                                      struct amb_segment *segment, uint64_t bytes)
{
    entry->payload.kind = kind;
    entry->is_leased = true;
    entry->data = segment->base;
    entry->meta = entry->payload.buf.data;
    entry->segment = segment;
    entry->is_of_gpu = segment->gpu != NULL;
    entry->charge = bytes + entry->payload.buf.cap + sizeof(*entry);
}

/* The charge of logs, lends and holders for it: the whole allocation, and the entry itself. */
static inline uint64_t amb_entry_charge(const struct amb_entry *entry)
{
    return entry->charge != 0 ? entry->charge : amb_entry_bytes(entry);
}

static inline void amb_entry_ref(struct amb_entry *entry)
{
    entry->refs++;
}

/* Makes `copy`, fresh from a pool, another entry for the same messages in the same place of the
 * log: lent, or moved. The caller knows the owner of each. */
void amb_entry_describe(struct amb_entry *copy, const struct amb_entry *entry);
/* Another entry for what `shard` holds: a shadow for another worker, which holds a reference on it.
 * NULL: no memory. */
struct amb_entry *amb_entry_lend(struct amb_entry *entry, struct amb_shard *shard);
/* `holder` is the caller's shard. At zero the entry is gone for the caller. */
void amb_entry_unref(struct amb_entry *entry, struct amb_shard *holder);
/* The last reference, of a batch that goes no further. At home it waits for amb_entries_end, which
 * comes before the link's next frame. */
void amb_entry_give_up(struct amb_entry *entry, struct amb_shard *holder);
/* Is nothing left but what is reserved? The entry in question is counted already. */
bool amb_entries_are_used_up(const struct amb_shard *shard);
/* Nothing is allocated yet. */
void amb_entries_init(struct amb_shard *shard, const struct amb_config *config);
/* Ends the entries that were given up. */
void amb_entries_end(struct amb_shard *shard);
