/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_take.h"

#include "broker/delivery/acks/queue_home.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/shard/entry.h"
#include "broker/shard/tally.h"
#include "broker/topic/topic.h"

void amb_queue_take_tally(struct amb_take *take, struct amb_tally *tally)
{
    take->tally = tally;
    if (tally != NULL) {
        tally->open++;
    }
}

struct amb_take *amb_queue_take_make(struct amb_queue *queue, struct amb_topic *topic,
                                     struct amb_entry *entry, uint32_t first, uint32_t count)
{
    struct amb_take *take = amb_take_get(queue->shard);
    if (take == NULL) {
        return NULL;
    }
    take->home = queue->shard;
    take->queue = queue;
    take->entry = entry;
    /* A private shadow goes with its cursor. */
    topic = topic->privates.namesake != NULL ? topic->privates.namesake : topic;
    take->topic = topic;
    take->come_home = amb_queue_take_home;
    amb_entry_ref(entry);
    topic->naming++;
    queue->takes++;
    amb_take_fill(take, first, count);
    take->bytes = amb_entry_bytes(entry) / entry->count * count;
    return take;
}

void amb_queue_take_drop(struct amb_take *take)
{
    struct amb_queue *queue = take->queue;
    if (take->tally != NULL) {
        amb_tally_settle(queue->shard, take->tally, take->acked);
    }
    amb_entry_unref(take->entry, queue->shard);
    take->topic->naming--;
    queue->takes--;
    amb_take_put(queue->shard, take);
}
