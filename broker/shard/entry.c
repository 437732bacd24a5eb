/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/entry.h"

#include "broker/config/config.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/purse.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#define ENTRIES_MIN UINT64_C(4096)

/* All entries of all workers together take at most a quarter of memory.host.size. */
static size_t entries_max_of(const struct amb_config *config)
{
    uint64_t bytes = config->memory.host.size / 4 / config->server.workers;
    uint64_t entries = bytes / sizeof(struct amb_entry);
    return (size_t)(entries < ENTRIES_MIN ? ENTRIES_MIN : entries);
}

void amb_entries_init(struct amb_shard *shard, const struct amb_config *config)
{
    struct amb_shard_entries *entries = &shard->entries;
    entries->max = entries_max_of(config);
    amb_list_init(&entries->holders);
    amb_list_init(&entries->given_up);
    amb_pool_init(&entries->pool, sizeof(struct amb_entry), AMB_SHARD_POOL_CHUNK, 0);
}

bool amb_entries_are_used_up(const struct amb_shard *shard)
{
    return shard->entries.pool.used + shard->entries.reserved > shard->entries.max;
}

void amb_entry_describe(struct amb_entry *copy, const struct amb_entry *entry)
{
    copy->refs = 1;
    copy->count = entry->count;
    copy->meta_len = entry->meta_len;
    copy->data_len = entry->data_len;
    copy->charge = amb_entry_charge(entry);
    copy->topic = entry->topic;
    copy->data = entry->data;
    copy->meta = entry->meta;
    copy->singles = entry->singles;
    copy->is_leased = entry->is_leased;
    copy->lease_user = entry->lease_user;
    copy->group = entry->group;
    copy->is_of_gpu = entry->is_of_gpu;
    copy->segment = entry->segment;
    copy->first_seq = entry->first_seq;
    copy->above = entry->above;
    copy->log_offset = entry->log_offset;
    copy->time_ns = entry->time_ns;
    copy->has_ttl = entry->has_ttl;
    copy->expires_ns = entry->expires_ns;
    copy->arrived_ns = entry->arrived_ns;
}

struct amb_entry *amb_entry_lend(struct amb_entry *entry, struct amb_shard *shard)
{
    struct amb_entry *shadow = amb_pool_get(&shard->entries.pool);
    if (shadow != NULL) {
        amb_entry_describe(shadow, entry);
        shadow->home = shard;
        shadow->parent = entry;
        amb_entry_ref(entry);
        amb_entry_share_take_copy(shadow, entry);
    }
    return shadow;
}

void amb_entry_charge_copy(struct amb_entry *copy, const struct amb_entry *of)
{
    amb_entry_share_take_copy(copy, of);
    while (of->purse == NULL && of->parent != NULL) {
        of = of->parent;
    }
    /* That one is there for as long as its entry is, and so is its user. */
    struct amb_purse *purse =
        of->purse == NULL ? NULL : amb_purse_find(copy->home, of->purse->party);
    if (purse != NULL) {
        copy->purse = purse;
        copy->purse_bytes = copy->payload.buf.cap;
        amb_purse_hold(purse, copy->purse_bytes);
        amb_purse_unref(&purse);
    }
}

/* At home, at zero references. */
static inline void entry_dispose(struct amb_entry *entry, struct amb_shard *home)
{
    struct amb_entry *parent = entry->parent;
    if (entry->purse != NULL) {
        if (amb_payload_is_landed(&entry->payload)) {
            amb_purse_lift(entry->purse, entry->payload.commit.lease->slot);
        }
        amb_purse_let_go(entry->purse, entry->purse_bytes);
    }
    amb_payload_end(&entry->payload, home);
    amb_entry_share_put(entry);
    amb_pool_put(&home->entries.pool, entry);
    if (parent != NULL) {
        amb_entry_unref(parent, home);
    }
}

static void entry_came_home(struct amb_mail *mail, void *owner)
{
    entry_dispose(AMB_CONTAINER_OF(mail, struct amb_entry, mail), owner);
}

void amb_entry_give_up(struct amb_entry *entry, struct amb_shard *holder)
{
    amb_assert(entry->refs == 1 && entry->twin == NULL);
    entry->refs = 0;
    if (entry->home == holder) {
        amb_list_push_back(&holder->entries.given_up, &entry->pending);
    } else {
        amb_mail_post(&entry->home->inbox, &entry->mail, entry_came_home);
    }
}

void amb_entries_end(struct amb_shard *shard)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&shard->entries.given_up)) != NULL) {
        entry_dispose(AMB_CONTAINER_OF(node, struct amb_entry, pending), shard);
    }
}

void amb_entry_unref(struct amb_entry *entry, struct amb_shard *holder)
{
    amb_assert(entry->refs > 0);
    if (--entry->refs > 0) {
        return;
    }
    if (entry->twin != NULL) {
        amb_entry_unref(entry->twin, holder);
        entry->twin = NULL;
        entry->twin_state = 0;
    }
    if (entry->home == holder) {
        entry_dispose(entry, holder);
    } else {
        amb_mail_post(&entry->home->inbox, &entry->mail, entry_came_home);
    }
}
