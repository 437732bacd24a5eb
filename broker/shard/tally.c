/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/tally.h"

#include "broker/shard/shard.h"
#include "wire/base/assert.h"

void amb_tallies_init(struct amb_shard *shard)
{
    amb_pool_init(&shard->tallies.pool, sizeof(struct amb_tally), AMB_SHARD_POOL_CHUNK,
                  AMB_TALLIES_MAX);
}

void amb_tallies_reserve(struct amb_shard *shard, uint32_t count)
{
    struct amb_tally *all = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct amb_tally *tally = amb_pool_get(&shard->tallies.pool);
        if (tally == NULL) {
            break;
        }
        tally->parent = all;
        all = tally;
    }
    while (all != NULL) {
        struct amb_tally *tally = all;
        all = tally->parent;
        amb_pool_put(&shard->tallies.pool, tally);
    }
}

bool amb_tally_try(struct amb_shard *shard, struct amb_entry *entry, amb_mail_fn on_end)
{
    struct amb_tally *tally = entry->status == AMB_OK ? amb_pool_get(&shard->tallies.pool) : NULL;
    if (tally == NULL) {
        return false;
    }
    tally->home = shard;
    tally->on_end = on_end;
    tally->count = entry->count;
    tally->origin = entry->origin;
    entry->tally = tally;
    return true;
}

void amb_tally_make(struct amb_shard *shard, struct amb_entry *entry, amb_mail_fn on_end)
{
    if (!amb_tally_try(shard, entry, on_end) && entry->status == AMB_OK) {
        entry->status = AMB_ELIMIT;
    }
}

void amb_tally_put(struct amb_tally *tally)
{
    amb_pool_put(&tally->home->tallies.pool, tally);
}

void amb_tally_begin(struct amb_entry *entry, uint32_t readers)
{
    entry->tally->first_seq = entry->first_seq + entry->above;
    entry->tally->above = entry->above;
    entry->tally->readers = readers;
    entry->tally->open = 1;
}

static void tally_cancelled(struct amb_mail *mail, void *owner)
{
    (void)owner;
    amb_tally_put(AMB_CONTAINER_OF(mail, struct amb_tally, mail));
}

void amb_tally_cancel(struct amb_shard *shard, struct amb_entry *entry)
{
    struct amb_tally *tally = entry->tally;
    entry->tally = NULL;
    if (tally->home == shard) {
        amb_tally_put(tally);
    } else {
        amb_mail_post(&tally->home->inbox, &tally->mail, tally_cancelled);
    }
}

/* At home: what the borrower's readers got. */
static void tally_came_home(struct amb_mail *mail, void *owner)
{
    struct amb_tally *tally = AMB_CONTAINER_OF(mail, struct amb_tally, mail);
    amb_tally_settle(owner, tally->parent, tally->delivered);
    amb_tally_put(tally);
}

void amb_tally_lend(struct amb_shard *shard, const struct amb_entry *entry,
                    struct amb_entry *shadow)
{
    struct amb_tally *tally = amb_pool_get(&shard->tallies.pool);
    if (tally == NULL) {
        return; /* Readers that are not counted there had no delivery: never said too early. */
    }
    tally->home = shard;
    tally->on_end = tally_came_home;
    tally->count = entry->count;
    tally->parent = entry->tally;
    tally->ticket = entry->tally->ticket;
    tally->parent->open++;
    tally->open = 1;
    shadow->tally = tally;
}

void amb_tally_settle(struct amb_shard *shard, struct amb_tally *tally, uint64_t msgs)
{
    amb_assert(tally->open > 0);
    tally->delivered += msgs;
    if (--tally->open > 0) {
        return;
    }
    if (tally->home == shard) {
        tally->on_end(&tally->mail, shard);
    } else {
        amb_mail_post(&tally->home->inbox, &tally->mail, tally->on_end);
    }
}

uint64_t amb_tally_dropped(const struct amb_tally *tally)
{
    uint64_t all = (uint64_t)tally->count * tally->readers;
    return tally->delivered < all ? all - tally->delivered : 0;
}
