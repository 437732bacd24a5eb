/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/traced.h"

#include "broker/delivery/acks/queue.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/shard/trace.h"
#include "broker/topic/cursor.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"

static struct amb_trace_standing *standing_of(const struct amb_cursor *cursor, uint32_t ticket)
{
    struct amb_shard *shard = cursor->topic->shard;
    return cursor->queue != NULL ? amb_trace_standing(shard, ticket, cursor->queue->id, 0, true)
                                 : amb_trace_standing(shard, ticket, cursor->sub->id,
                                                      cursor->sub->session->client_id, false);
}

/* ---- held ---- */

/* A subscription that has what it needs, and does not go on. */
static enum amb_trace_why why_it_waits(const struct amb_cursor *cursor,
                                       const struct amb_entry *entry)
{
    const struct amb_subscription *sub = cursor->sub;
    bool is_of_gpu = entry->is_leased && entry->segment->gpu != NULL;
    if (sub->options.lazy != AMB_LAZY_OFF) {
        return amb_lazy_has_room(sub, entry) ? AMB_TRACE_WHY_TURN : AMB_TRACE_WHY_LAZY;
    }
    if (is_of_gpu && entry->twin_state == AMB_TWIN_COMING) {
        return AMB_TRACE_WHY_STAGING;
    }
    /* The rest of amb_deliver_way: a large payload waits until its segment is mapped. */
    return is_of_gpu || sub->session->may_map ? AMB_TRACE_WHY_MAPPING : AMB_TRACE_WHY_TURN;
}

static enum amb_trace_why why_held(const struct amb_cursor *cursor, const struct amb_entry *entry)
{
    const struct amb_subscription *sub = cursor->sub;
    if (!amb_list_is_empty(&cursor->kin) && amb_priority_is_outranked(cursor)) {
        return AMB_TRACE_WHY_PRIORITY;
    }
    if (cursor->recall.prelude != NULL) {
        return AMB_TRACE_WHY_HISTORY;
    }
    if (cursor->queue != NULL) {
        return AMB_TRACE_WHY_MEMBERS;
    }
    bool is_lazy = sub->options.lazy != AMB_LAZY_OFF;
    uint64_t bytes = is_lazy ? amb_lazy_bytes(sub, entry) : amb_entry_bytes(entry);
    if (!amb_session_has_room(sub->session)) {
        return AMB_TRACE_WHY_LINK;
    }
    if (!amb_subscription_has_credit(sub, entry->count - cursor->within, bytes)) {
        return AMB_TRACE_WHY_CREDIT;
    }
    if (sub->pace != NULL && !amb_list_is_empty(&sub->pace->node)) {
        return AMB_TRACE_WHY_PACE;
    }
    if (cursor->pick.filter != NULL && !amb_list_is_empty(&cursor->stalled)) {
        return AMB_TRACE_WHY_FILTER;
    }
    return why_it_waits(cursor, entry);
}

/* ---- passed ---- */

static bool is_expired(const struct amb_cursor *cursor, const struct amb_entry *entry)
{
    return entry->expires_ns != 0 && cursor->topic->shard->now_ns >= entry->expires_ns;
}

/* It has passed, and was given nothing of it. */
static enum amb_trace_why why_left_out(const struct amb_cursor *cursor,
                                       const struct amb_entry *entry)
{
    return is_expired(cursor, entry)                   ? AMB_TRACE_WHY_EXPIRED
           : cursor->pick.filter != NULL               ? AMB_TRACE_WHY_FILTER
           : entry->twin_state >= AMB_TWIN_FAILED      ? AMB_TRACE_WHY_FAILED
           : cursor->hold.slow == AMB_SLOW_LATEST      ? AMB_TRACE_WHY_LATEST
           : cursor->hold.slow == AMB_SLOW_DROP_NEWEST ? AMB_TRACE_WHY_SLOW
                                                       : AMB_TRACE_WHY_ENDED;
}

/* The entry is dropped, and it has not come to it. */
static enum amb_trace_why why_dropped(const struct amb_cursor *cursor,
                                      const struct amb_entry *entry)
{
    const struct amb_topic_purge *purge = &cursor->topic->purge;
    bool is_purged = entry->first_seq >= purge->from && entry->first_seq < purge->upto;
    return is_purged                   ? AMB_TRACE_WHY_PURGED
           : is_expired(cursor, entry) ? AMB_TRACE_WHY_EXPIRED
           : cursor->hold.holds        ? AMB_TRACE_WHY_TRIMMED
                                       : AMB_TRACE_WHY_SLOW;
}

/* A filter leaves out what its reader does not want: no loss. Other policies lose. */
static enum amb_trace_stage stage_of(enum amb_trace_why why)
{
    return why == AMB_TRACE_WHY_FILTER ? AMB_TRACE_LEFT_OUT : AMB_TRACE_DROPPED;
}

static bool is_of_reader(const struct amb_cursor *cursor, const struct amb_entry *entry)
{
    return entry->first_seq >= cursor->counts_from; /* Else it came after the batch. */
}

static void reader_passed(const struct amb_cursor *cursor, const struct amb_entry *entry,
                          struct amb_trace_standing *standing)
{
    if (!standing->is_given) {
        enum amb_trace_why why = why_left_out(cursor, entry);
        amb_trace_stand(cursor->topic->shard, standing, cursor->topic->id, stage_of(why), why);
    }
    standing->is_over = true;
}

void amb_traced_end(struct amb_topic *topic, const struct amb_entry *entry, uint64_t position)
{
    uint32_t ticket = entry->tally->ticket;
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        struct amb_trace_standing *standing =
            is_of_reader(cursor, entry) ? standing_of(cursor, ticket) : NULL;
        if (standing == NULL) {
            continue;
        }
        if (cursor->position > position) {
            reader_passed(cursor, entry, standing);
        } else {
            amb_trace_stand(topic->shard, standing, topic->id, AMB_TRACE_DROPPED,
                            why_dropped(cursor, entry));
        }
    }
    amb_trace_unwatch(topic->shard, topic, ticket);
}

/* ---- looking ---- */

static void look_at_reader(struct amb_cursor *cursor, const struct amb_trace_watch *watch)
{
    const struct amb_topic *topic = cursor->topic;
    const struct amb_entry *entry = amb_log_at(&topic->log, watch->position);
    struct amb_trace_standing *standing =
        is_of_reader(cursor, entry) ? standing_of(cursor, watch->ticket) : NULL;
    if (standing == NULL || standing->is_over) {
        return;
    }
    if (cursor->position > watch->position) {
        reader_passed(cursor, entry, standing);
        return;
    }
    /* It may stand in front of another batch, and wait for that. */
    uint64_t at = cursor->position < topic->log.lo ? topic->log.lo : cursor->position;
    amb_trace_stand(topic->shard, standing, topic->id, AMB_TRACE_HELD,
                    why_held(cursor, amb_log_at(&topic->log, at)));
}

/* Of one batch. Returns how many readers were looked at. */
static uint32_t look_at_batch(const struct amb_trace_watch *watch, uint32_t budget)
{
    uint32_t looked = 0;
    AMB_LIST_FOR_EACH (node, &watch->topic->cursors) {
        if (looked++ == budget) {
            break;
        }
        look_at_reader(AMB_CONTAINER_OF(node, struct amb_cursor, of_topic), watch);
    }
    return looked;
}

void amb_traced_look(struct amb_shard *shard)
{
    uint32_t budget = AMB_TRACED_LOOKS;
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        const struct amb_trace *trace = shard->trace.armed[i];
        struct amb_trace_part *part = trace == NULL ? NULL : trace->parts[shard->index];
        for (uint32_t k = 0; part != NULL && k < part->watch_end && budget > 0; k++) {
            if (part->watches[k].topic != NULL) {
                uint32_t looked = look_at_batch(&part->watches[k], budget);
                budget -= looked < budget ? looked : budget;
            }
        }
    }
}
