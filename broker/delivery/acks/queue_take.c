/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_take.h"

#include "broker/delivery/acks/queue_again.h"
#include "broker/delivery/acks/queue_home.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/shard/entry.h"
#include "broker/shard/tally.h"
#include "broker/shard/trace.h"
#include "broker/topic/topic.h"

void amb_queue_take_tally(struct amb_take *take, struct amb_tally *tally)
{
    take->tally = tally;
    if (tally != NULL) {
        tally->open++;
        take->is_noted = true;
    }
}

void amb_queue_take_given(struct amb_take *take, struct amb_tally *tally)
{
    amb_queue_take_tally(take, tally);
    if (tally == NULL || tally->ticket == 0) {
        return;
    }
    const struct amb_queue *queue = take->queue;
    struct amb_trace_standing *standing =
        amb_trace_standing(queue->shard, tally->ticket, queue->id, 0, true);
    if (standing != NULL) {
        standing->is_given = true;
        standing->stage = AMB_TRACE_GIVEN;
    }
    amb_trace_note(queue->shard, tally->ticket,
                   (struct amb_trace_record){.stage = AMB_TRACE_GIVEN,
                                             .topic = take->topic->id,
                                             .reader = queue->id,
                                             .is_queue = true,
                                             .msgs = take->count,
                                             .bytes = take->bytes});
}

/* A stage of messages of a traced batch. */
static void take_note(const struct amb_take *take, enum amb_trace_stage stage,
                      enum amb_trace_why why, uint32_t msgs)
{
    if (msgs > 0) {
        amb_trace_note(take->queue->shard, take->tally->ticket,
                       (struct amb_trace_record){.stage = (uint8_t)stage,
                                                 .why = (uint8_t)why,
                                                 .topic = take->topic->id,
                                                 .reader = take->to.sub,
                                                 .msgs = msgs});
    }
}

static void take_note_acked(const struct amb_take *take)
{
    bool is_acked = take->queue->options.ack != AMB_ACK_NONE;
    take_note(take, is_acked ? AMB_TRACE_ACKED : AMB_TRACE_BACK, AMB_TRACE_WHY_NONE, take->acked);
}

void amb_queue_take_tell(struct amb_take *take)
{
    struct amb_tally *tally = take->tally;
    if (tally == NULL || take->acked == 0) {
        return;
    }
    if (tally->ticket != 0) {
        take_note_acked(take);
    }
    tally->open++; /* It stays open for the rest. */
    amb_tally_settle(take->queue->shard, tally, take->acked);
    take->acked = 0;
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
    take->key = (struct amb_take_key){
        .queue = queue->id,
        .seq = entry->first_seq,
        .topic = topic->id,
    };
    amb_entry_ref(entry);
    topic->naming++;
    queue->takes++;
    amb_take_fill(take, first, count);
    take->bytes = amb_entry_bytes(entry) / entry->count * count;
    return take;
}

void amb_queue_take_again(struct amb_take *take, uint32_t attempt)
{
    amb_take_again(take, attempt);
    if (attempt > 0) {
        amb_queue_again_add(take);
    }
}

void amb_queue_take_forget_late(struct amb_take *take)
{
    struct amb_take *late = take->late;
    take->late = NULL;
    if (late != NULL && --late->late_of == 0) {
        amb_take_put(take->queue->shard, late);
    }
}

void amb_queue_take_drop(struct amb_take *take)
{
    struct amb_queue *queue = take->queue;
    if (take->tally != NULL) {
        if (take->tally->ticket != 0) {
            take_note_acked(take);
            take_note(take, AMB_TRACE_DROPPED,
                      queue->is_closed ? AMB_TRACE_WHY_ENDED : AMB_TRACE_WHY_GIVEN_UP, take->left);
        }
        amb_tally_settle(queue->shard, take->tally, take->acked);
    }
    amb_queue_again_remove(take);
    amb_queue_take_forget_late(take);
    amb_entry_unref(take->entry, queue->shard);
    take->topic->naming--;
    queue->takes--;
    amb_take_put(queue->shard, take);
}
