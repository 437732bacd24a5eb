/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/relocate.h"

#include "broker/base/fault.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/leased_copy.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"

void amb_relocate_to_twin(struct amb_topic *topic, uint64_t position, struct amb_entry *twin)
{
    struct amb_entry *entry = amb_log_at(&topic->log, position);
    amb_assert(!entry->has_window || position < topic->ungranted);
    amb_entry_ref(twin);
    twin->log_offset = entry->log_offset;
    twin->has_ttl = entry->has_ttl;
    twin->expires_ns = entry->expires_ns;
    twin->arrived_ns = entry->arrived_ns;
    amb_log_replace(&topic->log, position, twin);
    amb_entry_unref(entry, topic->shard);
}

bool amb_relocate_leased(struct amb_topic *topic, uint64_t position, bool reclaims)
{
    struct amb_shard *shard = topic->shard;
    struct amb_entry *entry = amb_log_at(&topic->log, position);
    struct amb_entry *copy = amb_pool_get(&shard->entries.pool);
    if (copy == NULL) {
        return false;
    }
    amb_entry_describe(copy, entry);
    copy->home = shard;
    shard->reclaim.spared = topic; /* Its log is being read. */
    enum amb_status status = amb_leased_copy_out(shard, entry, reclaims, copy);
    shard->reclaim.spared = NULL;
    if (status != AMB_OK) {
        amb_pool_put(&shard->entries.pool, copy);
        return false;
    }
    amb_entry_charge_copy(copy, entry);
    amb_log_replace(&topic->log, position, copy);
    if (topic->keys != NULL) {
        amb_keys_moved(topic->keys, entry, copy);
    }
    if (AMB_FAULT(SLOTS_EARLY) && entry->home == shard) {
        amb_payload_let_go(&entry->payload);
    }
    amb_entry_unref(entry, shard);
    return true;
}
