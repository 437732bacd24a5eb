/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher_entries.h"

#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"

#define PART 8u                           /* one in so many: of all, and of that for one */
#define TINY_WINDOW (UINT64_C(256) << 10) /* may stand open, however small the batches */
#define SIZE_UNKNOWN (UINT64_C(4) << 10)  /* of a batch, before the first ones came */
#define SIZE_LEAST ((uint64_t)sizeof(struct amb_record)) /* of a batch: it has a message */
#define LOOKS 16u /* at publishers that may have more than their part, for one that lacks some */

static void set_reserved(struct amb_publisher *publisher, uint32_t count)
{
    struct amb_session *session = publisher->session;
    struct amb_shard_entries *all = &session->shard->entries;
    bool had = session->entries_reserved > 0;
    size_t more = (size_t)count - publisher->entries.reserved; /* Or less, modulo 2^64. */
    all->reserved += more;
    session->entries_reserved += more;
    if (session->entry_share != NULL) {
        amb_entry_share_add(session->entry_share, more);
    }
    publisher->entries.reserved = count;
    all->sessions += session->entries_reserved > 0;
    all->sessions -= had;
    if (count == 0) {
        amb_list_remove(&publisher->entries.node);
    } else if (amb_list_is_empty(&publisher->entries.node)) {
        amb_list_push_back(&all->holders, &publisher->entries.node);
    }
}

/* The size falls at once: else many small batches after a large one would find too few. It rises to
 * twice what it was at most. */
static void measure(struct amb_publisher *publisher)
{
    struct amb_publisher_entries *entries = &publisher->entries;
    uint64_t batches = publisher->batches - entries->batches;
    if (batches == 0) {
        return;
    }
    uint64_t size = (publisher->received - entries->bytes) / batches;
    bool is_larger = entries->size != 0 && size > 2 * entries->size;
    entries->size = is_larger ? 2 * entries->size : size < SIZE_LEAST ? SIZE_LEAST : size;
    entries->bytes = publisher->received;
    entries->batches = publisher->batches;
}

static size_t left_of(size_t most, size_t used)
{
    return used < most ? most - used : 0;
}

size_t amb_publisher_entries_room(const struct amb_publisher *publisher)
{
    return amb_entry_share_room(publisher->session->shard, publisher->session->entry_share);
}

struct amb_entry_claim amb_publisher_entries_claim(const struct amb_publisher *publisher)
{
    return (struct amb_entry_claim){.share = publisher->session->entry_share,
                                    .has_entry = publisher->entries.has_entry};
}

/* How many more may be reserved for the publisher, with none taken back. */
static size_t room(const struct amb_publisher *publisher)
{
    const struct amb_session *session = publisher->session;
    const struct amb_shard_entries *entries = &session->shard->entries;
    size_t most = entries->max / PART, in_all = amb_publisher_entries_room(publisher);
    size_t free_of_others = left_of(most, entries->reserved - session->entries_reserved);
    size_t own = left_of((free_of_others + PART - 1) / PART, session->entries_reserved);
    size_t left = left_of(most, entries->reserved);
    left = left < own ? left : own;
    return left < in_all ? left : in_all;
}

/* An equal part for each session that has some, and for this one. */
static size_t part(const struct amb_session *session)
{
    const struct amb_shard_entries *entries = &session->shard->entries;
    size_t each = entries->max / PART / (entries->sessions + (session->entries_reserved == 0));
    return each > 0 ? each : 1;
}

/* Takes so many at most from sessions that have more than their part, and returns how many. A
 * publisher that keeps some goes to the end of the list. So one that has more is found in the end.
 */
static size_t take_back(struct amb_session *session, size_t wanted)
{
    struct amb_list_node *holders = &session->shard->entries.holders;
    size_t each = part(session), got = 0;
    for (unsigned i = 0; i < LOOKS && got < wanted && !amb_list_is_empty(holders); i++) {
        struct amb_publisher *other =
            AMB_CONTAINER_OF(holders->next, struct amb_publisher, entries.node);
        size_t more = left_of(other->session->entries_reserved, each),
               had = other->entries.reserved;
        more = more < had ? more : had;
        more = more < wanted - got ? more : wanted - got;
        set_reserved(other, (uint32_t)(had - more));
        got += more;
        if (more < had && got < wanted) {
            amb_list_remove(&other->entries.node);
            amb_list_push_back(holders, &other->entries.node);
        }
    }
    return got;
}

/* For so many bytes of an open window. */
static uint64_t due(const struct amb_publisher *publisher, uint64_t open)
{
    uint64_t size = publisher->entries.size == 0 ? SIZE_UNKNOWN : publisher->entries.size;
    return 2 * open / size + 1;
}

void amb_publisher_entries_open(struct amb_publisher *publisher)
{
    struct amb_session *session = publisher->session;
    uint64_t open = publisher->window - publisher->received;
    if (open == 0) {
        return;
    }
    measure(publisher);
    size_t reserved = publisher->entries.reserved, more = left_of(due(publisher, open), reserved);
    size_t left = room(publisher);
    if (more > left) {
        size_t own = left_of(part(session), session->entries_reserved + left);
        size_t share = left_of(amb_entry_share_left(session->shard, session->entry_share), left);
        own = own < share ? own : share;
        more -= left;
        more = left + take_back(session, more < own ? more : own);
    }
    if (more > 0) {
        set_reserved(publisher, (uint32_t)(reserved + more));
    }
}

uint64_t amb_publisher_entries_window(const struct amb_publisher *publisher, uint64_t size)
{
    const struct amb_publisher_entries *entries = &publisher->entries;
    uint64_t most = publisher->session->shard->entries.max / PART / PART * entries->size;
    most = most < TINY_WINDOW ? TINY_WINDOW : most;
    return entries->size == 0 || size < most ? size : most;
}

void amb_publisher_entries_begin(struct amb_publisher *publisher)
{
    amb_list_init(&publisher->entries.node);
    publisher->entries.bytes = publisher->received;
    publisher->entries.batches = publisher->batches;
    amb_publisher_entries_open(publisher);
}

void amb_publisher_entries_take(struct amb_publisher *publisher)
{
    struct amb_publisher_entries *entries = &publisher->entries;
    uint64_t open = publisher->window - publisher->received;
    if (__builtin_expect(entries->reserved == 0, 0)) {
        amb_publisher_entries_open(publisher); /* Others may have left some. */
    }
    entries->has_entry = entries->reserved > 0;
    /* No more stay than the smallest batches could take. */
    uint64_t left = entries->reserved - (uint32_t)entries->has_entry, most = open / SIZE_LEAST;
    set_reserved(publisher, (uint32_t)(left < most ? left : most));
}

void amb_publisher_entries_close(struct amb_publisher *publisher)
{
    set_reserved(publisher, 0);
}
