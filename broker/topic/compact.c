/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/compact.h"

#include "broker/memory/bufpool.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"

#include <string.h>

/* Of one step: together less than 100 us. */
#define STEP_LOOKS 512u
#define STEP_BYTES (UINT64_C(128) << 10)

static bool entry_is_movable(const struct amb_shard *shard, const struct amb_entry *entry)
{
    return entry->refs == 1 && entry->parent == NULL && amb_payload_is_buffer(&entry->payload) &&
           amb_bufpool_is_small(&entry->payload.buf) &&
           shard->now_ns - entry->arrived_ns >= AMB_COMPACT_AGE_NS;
}

static void entry_copy_to(struct amb_entry *entry, const struct amb_buf *to)
{
    memcpy(to->data, entry->data, amb_entry_bytes(entry));
    entry->payload.buf = *to;
    entry->data = to->data;
    entry->meta = to->data + entry->data_len;
    entry->segment = to->segment;
}

/* Within its own pool. */
static bool compact_own(struct amb_entry *entry)
{
    struct amb_buf from = entry->payload.buf, to;
    if (!amb_bufpool_alloc_denser(from.segment->pool, &from, &to)) {
        return false;
    }
    entry_copy_to(entry, &to);
    amb_buf_free(&from);
    return true;
}

/* Out of another shard's pool, by an entry of our own. */
static bool compact_foreign(struct amb_topic *topic, uint64_t position, struct amb_entry *entry)
{
    struct amb_shard *shard = topic->shard;
    struct amb_buf to;
    if (amb_stat_get(&entry->home->stats->sparse_slabs) < AMB_COMPACT_SLABS_MIN ||
        amb_bufpool_alloc(amb_shard_pool(shard, entry->group), amb_entry_bytes(entry), &to) !=
            AMB_OK) {
        return false;
    }
    struct amb_entry *copy = amb_pool_get(&shard->entries.pool);
    if (copy == NULL) {
        amb_buf_free(&to);
        return false;
    }
    amb_entry_describe(copy, entry);
    copy->home = shard;
    copy->payload.kind = AMB_PAYLOAD_BUFFER;
    entry_copy_to(copy, &to);
    amb_entry_charge_copy(copy, entry);
    amb_log_replace(&topic->log, position, copy);
    amb_entry_unref(entry, shard);
    return true;
}

/* Goes on in one topic. True: it is done with. */
static bool compact_topic(struct amb_topic *topic, unsigned *looks, uint64_t *bytes)
{
    struct amb_shard *shard = topic->shard;
    struct amb_shard_compact *walk = &shard->compact;
    const struct amb_log *log = &topic->log;
    if (walk->position < log->lo) {
        walk->position = log->lo;
    }
    /* A receipt or a grant that is not sent yet needs the entry itself. */
    while (walk->position < log->hi && walk->position < topic->ungranted) {
        if (*looks >= STEP_LOOKS || *bytes >= STEP_BYTES) {
            return false;
        }
        ++*looks;
        struct amb_entry *entry = amb_log_at(log, walk->position);
        uint64_t len = amb_entry_bytes(entry);
        if (entry_is_movable(shard, entry) &&
            (entry->home == shard ? compact_own(entry)
                                  : compact_foreign(topic, walk->position, entry))) {
            *bytes += len;
            amb_stat_add(&shard->stats->compacted, 1);
            amb_stat_add(&shard->stats->compacted_bytes, len);
        }
        walk->position++;
    }
    return true;
}

/* Is there a pool that would gain by a walk through our logs? */
static bool compact_is_worthwhile(const struct amb_shard *shard)
{
    for (unsigned i = 0; i < shard->peer_count; i++) {
        if (amb_stat_get(&shard->peers[i]->stats->sparse_slabs) >= AMB_COMPACT_SLABS_MIN) {
            return true;
        }
    }
    return false;
}

int64_t amb_compact_run(struct amb_shard *shard)
{
    struct amb_shard_compact *walk = &shard->compact;
    if (shard->now_ns < walk->due_ns) {
        return walk->due_ns;
    }
    atomic_store_explicit(&shard->stats->sparse_slabs, shard->memory.bufpool.sparse_slabs,
                          memory_order_relaxed);
    if (!walk->is_walking && compact_is_worthwhile(shard)) {
        walk->is_walking = true;
        walk->topic = 0;
        walk->position = 0;
    }
    unsigned looks = 0;
    uint64_t bytes = 0;
    while (walk->is_walking && looks < STEP_LOOKS && bytes < STEP_BYTES) {
        if (walk->topic >= shard->topics.cells) {
            walk->is_walking = false;
            break;
        }
        struct amb_topic *topic = shard->topics.at[walk->topic];
        looks++;
        if (topic == NULL || !amb_topic_is_home(topic) || compact_topic(topic, &looks, &bytes)) {
            walk->topic++;
            walk->position = 0;
        }
    }
    walk->due_ns = shard->now_ns + (walk->is_walking ? AMB_COMPACT_STEP_NS : AMB_COMPACT_AGE_NS);
    return walk->due_ns;
}

int64_t amb_compact_due(struct amb_shard *shard)
{
    return shard->compact.is_walking ? shard->now_ns + AMB_COMPACT_STEP_NS : INT64_MAX;
}
