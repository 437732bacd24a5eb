/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that a cursor reads before its log. They are the newest message of each key
 * (keys.h), as the topic's home keeps them when they are read. A prelude is a place in their order,
 * not a copy of it. A key that gets a newer message meanwhile is read in the log instead.
 *
 * How its entries come is recall.h.
 *
 * Threads: made at the topic's home, then the cursor's worker; on its way it is home's. Memory: one
 * allocation of a fixed size, and a reference on each entry of its slice.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_PRELUDE_SLICE 32u         /* entries that are lent at once, */
#define AMB_PRELUDE_BYTES (64u << 10) /* and bytes, but for one entry */

struct amb_cursor;
struct amb_entry;
struct amb_shard;

struct amb_prelude {
    uint64_t from, upto;       /* numbers that are still to be read */
    uint32_t count, next;      /* of entries */
    uint32_t missed;           /* messages before the next one that there was no memory for */
    uint32_t wanted;           /* entries, of the slice that is asked for */
    bool is_over;              /* nothing is behind this slice */
    bool is_asked;             /* on its way: only cursor may be looked at */
    struct amb_cursor *cursor; /* ... that waits for it; NULL: is gone */
    struct amb_prelude **kept; /* the session's place for the one that keeps its slice; or NULL */
    struct amb_shard *reader;  /* the cursor's worker */
    uint32_t topic;            /* id */
    struct amb_list_node of_shard; /* of the reader's, while asked */
    struct amb_mail mail;
    struct amb_entry *entries[AMB_PRELUDE_SLICE];
};

/* Of messages with numbers below `upto`. NULL: no memory. */
struct amb_prelude *amb_prelude_create(uint64_t upto);
/* Harmless for NULL. One that is on its way is freed when it comes. */
void amb_prelude_free(struct amb_prelude **prelude, struct amb_shard *shard);
/* The shard ends, after all threads: those on their way. */
void amb_prelude_fini(struct amb_shard *shard);
/* The next one to read. NULL: it has to be recalled. */
static inline struct amb_entry *amb_prelude_entry(const struct amb_prelude *prelude)
{
    return !prelude->is_asked && prelude->next < prelude->count ? prelude->entries[prelude->next]
                                                                : NULL;
}
/* The number that is expected next, where there is an entry: messages missed before it are a
 * gap. */
uint64_t amb_prelude_seq(const struct amb_prelude *prelude);
/* The entry has been read. */
void amb_prelude_advance(struct amb_prelude *prelude, struct amb_shard *shard);
/* The rest of the slice is given up. */
void amb_prelude_drop(struct amb_prelude *prelude, struct amb_shard *shard);
/* The place of the one that keeps its slice goes. */
void amb_prelude_forget(struct amb_prelude **place);
