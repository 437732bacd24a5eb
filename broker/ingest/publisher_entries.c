/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher_entries.h"

#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"

#define PART 8u                          /* reserved: of all, of one session's */
#define SIZE_UNKNOWN (UINT64_C(4) << 10) /* of a batch, before the first ones came */
#define SIZE_LEAST ((uint64_t)sizeof(struct amb_record))

static void set_reserved(struct amb_publisher *publisher, uint32_t count)
{
    struct amb_session *session = publisher->session;
    size_t *all = &session->shard->entries.reserved, *own = &session->entries_reserved;
    *all = *all - publisher->entries.reserved + count;
    *own = *own - publisher->entries.reserved + count;
    publisher->entries.reserved = count;
}

/* Down at once, or many small batches after a large one would find too little; up by twice. */
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

static size_t less(size_t most, size_t used)
{
    return used < most ? most - used : 0;
}

/* How many more may be reserved for the publisher. Sessions that keep theirs leave the next one
 * some, however many they are. */
static size_t room(const struct amb_publisher *publisher)
{
    const struct amb_session *session = publisher->session;
    const struct amb_shard_entries *entries = &session->shard->entries;
    size_t most = entries->max / PART, in_all = amb_entries_room(session->shard);
    size_t free_of_others = less(most, entries->reserved - session->entries_reserved);
    size_t own = less((free_of_others + PART - 1) / PART, session->entries_reserved);
    size_t left = less(most, entries->reserved);
    left = left < own ? left : own;
    return left < in_all ? left : in_all;
}

void amb_publisher_entries_open(struct amb_publisher *publisher)
{
    uint64_t open = publisher->window - publisher->received;
    size_t left = room(publisher);
    if (open == 0 || left == 0) {
        return;
    }
    measure(publisher);
    uint64_t size = publisher->entries.size == 0 ? SIZE_UNKNOWN : publisher->entries.size;
    uint64_t due = 2 * open / size + 1, reserved = publisher->entries.reserved;
    if (due > reserved) {
        uint64_t more = due - reserved < left ? due - reserved : left;
        set_reserved(publisher, (uint32_t)(reserved + more));
    }
}

void amb_publisher_entries_take(struct amb_publisher *publisher)
{
    struct amb_publisher_entries *entries = &publisher->entries;
    uint64_t open = publisher->window - publisher->received;
    if (__builtin_expect(entries->reserved == 0, 0)) {
        amb_publisher_entries_open(publisher); /* Others may have left some. */
    }
    entries->is_taken = entries->reserved > 0;
    uint64_t left = entries->reserved - (uint32_t)entries->is_taken, most = open / SIZE_LEAST;
    set_reserved(publisher, (uint32_t)(left < most ? left : most));
}

void amb_publisher_entries_close(struct amb_publisher *publisher)
{
    set_reserved(publisher, 0);
}
