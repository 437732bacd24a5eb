/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/spill.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/delivery/reader/pick.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/reclaim.h"
#include "broker/topic/relocate.h"
#include "broker/topic/topic.h"
#include "broker/topic/topic_tail.h"
#include "broker/topic/trim.h"
#include "broker/topic/twin.h"
#include "wire/base/clock.h"

#define SPILL_LOOKS UINT64_C(1024)                  /* entries looked at in one walk */
#define SPILL_STEP_BYTES (UINT64_C(1) << 20)        /* copied in one walk, and one entry more */
#define SPILL_COMING_BYTES (UINT64_C(64) << 20)     /* with the copier, or one entry */
#define SPILL_ENTRIES_MAX (AMB_LOG_ENTRIES_MAX / 2) /* of a tail: others need some of a log too */
#define SPILL_TRIES 3u                              /* for memory, then something has to go */
#define SPILL_RETRY_NS (AMB_RECLAIM_PAUSE_NS / 5)   /* ... each time */

/* One walk through a tail. */
struct spill_walk {
    struct amb_topic *topic;
    struct amb_topic_tail tail;
    uint64_t copied, coming; /* bytes */
    uint64_t drops;          /* entries */
    bool is_over;            /* the messages behind wait for another walk */
};

/* The topic is walked again then. */
static void spill_later(struct amb_topic *topic, int64_t at_ns)
{
    struct amb_shard *shard = topic->shard;
    if (amb_list_is_empty(&topic->spill.node)) {
        amb_list_push_back(&shard->spill.waiting, &topic->spill.node);
    }
    shard->spill.due_ns = at_ns < shard->spill.due_ns ? at_ns : shard->spill.due_ns;
}

/* What is too much ------------------------------------------------------------------------------
 */

/* One entry more? The rest waits for another walk: each looks at all readers. */
static bool spill_may_drop(struct spill_walk *walk)
{
    if (walk->drops == SPILL_LOOKS) {
        amb_topic_mark(walk->topic);
        return false;
    }
    walk->drops++;
    return true;
}

/* A reader that is too slow even for a log goes on as with a full log, but for its entries, which
 * stay. */
static void spill_bound_others(struct spill_walk *walk)
{
    struct amb_topic *topic = walk->topic;
    struct amb_topic_tail *tail = &walk->tail;
    uint64_t may =
        topic->rule->full == AMB_FULL_DROP_OLDEST ? topic->log.hi : amb_topic_holding_from(topic);
    while (tail->upto < may && tail->upto + 1 < topic->log.hi && amb_topic_is_over(topic, tail) &&
           spill_may_drop(walk)) {
        AMB_LIST_FOR_EACH (node, &topic->cursors) {
            struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
            if (cursor->hold.slow == AMB_SLOW_DISCONNECT && !cursor->hold.is_replaying &&
                cursor->position <= tail->upto) {
                amb_pick_disconnect(cursor);
            }
        }
        amb_topic_skip(topic, tail->upto, false);
        amb_topic_tail(topic, tail);
    }
}

/* The tail's oldest entry goes. */
static void spill_drop(struct spill_walk *walk)
{
    amb_topic_skip(walk->topic, walk->tail.from, true);
    amb_topic_tail(walk->topic, &walk->tail);
}

static void spill_bound(struct spill_walk *walk)
{
    const struct amb_topic_tail *tail = &walk->tail;
    uint64_t most = walk->topic->rule->spill_max >> AMB_FAULT(SPILL_SHORT);
    while (tail->from + 1 < tail->upto &&
           (tail->upto - tail->from > SPILL_ENTRIES_MAX ||
            amb_topic_tail_bytes(walk->topic, tail) > most) &&
           !AMB_FAULT(SPILL_UNBOUNDED) && spill_may_drop(walk)) {
        spill_drop(walk);
    }
}

/* What is moved ---------------------------------------------------------------------------------
 */

static void spill_count(struct amb_topic *topic, uint64_t position, const struct amb_entry *entry)
{
    struct amb_topic_spill *spill = &topic->spill;
    spill->moved = position + 1 > spill->moved ? position + 1 : spill->moved;
    spill->msgs += entry->count;
    spill->bytes += entry->data_len;
    if (topic->shard->now_ns - spill->retry_ns > AMB_SPILL_AFTER_NS) {
        spill->tries = 0; /* There has been enough memory for a while. */
    }
    amb_stat_add(&topic->shard->stats->spilled, entry->count);
    amb_stat_add(&topic->shard->stats->spilled_bytes, entry->data_len);
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (cursor->hold.spills && cursor->sub != NULL && cursor->position <= position) {
            cursor->sub->spilled += entry->count;
        }
    }
}

/* Readers that are a little behind, and soon not any more, are left alone. */
static bool spill_is_due(const struct spill_walk *walk, uint64_t position,
                         const struct amb_entry *entry)
{
    struct amb_topic *topic = walk->topic;
    struct amb_shard *shard = topic->shard;
    const struct amb_topic_tail rest = {position, walk->tail.upto};
    int64_t left_ns = entry->arrived_ns + AMB_SPILL_AFTER_NS - shard->now_ns;
    if (left_ns <= 0 ||
        (position + 1 < walk->tail.upto && amb_topic_tail_bytes(topic, &rest) > AMB_TOPIC_DEPTH)) {
        return true;
    }
    spill_later(topic, amb_deadline_ns(shard->now_ns, left_ns));
    return false;
}

/* Others have been asked for some, which has not helped: history goes, or else the tail's oldest,
 * as much as is wanted. */
static void spill_make_room(struct spill_walk *walk, uint64_t position)
{
    struct amb_topic *topic = walk->topic;
    struct amb_topic_tail *tail = &walk->tail;
    uint64_t want = amb_log_at(&topic->log, position)->data_len, freed = 0;
    amb_topic_trim(topic);
    if (topic->history.retains) {
        uint64_t lo = topic->log.lo;
        amb_topic_forget(topic, tail->from);
        if (topic->log.lo > lo) {
            return;
        }
    }
    while (freed < want && tail->from <= position && tail->from < tail->upto) {
        freed += amb_entry_charge(amb_log_at(&topic->log, tail->from));
        spill_drop(walk);
    }
    amb_topic_trim(topic);
}

/* May memory be asked for once more? Else the topic is walked when it may. */
static bool spill_may_ask(struct spill_walk *walk)
{
    struct amb_topic *topic = walk->topic;
    if (topic->spill.tries == 0 || topic->shard->now_ns >= topic->spill.retry_ns) {
        return true;
    }
    spill_later(topic, topic->spill.retry_ns);
    walk->is_over = true;
    return false;
}

/* There is no memory for that one. Messages that are given up for it may have to go home first, so
 * this ends the walk. */
static void spill_lacks(struct spill_walk *walk, uint64_t position)
{
    struct amb_topic *topic = walk->topic;
    struct amb_topic_spill *spill = &topic->spill;
    bool is_tried = spill->tries + 1 >= SPILL_TRIES;
    int64_t pause_ns = is_tried ? SPILL_RETRY_NS : AMB_RECLAIM_PAUSE_NS;
    spill->tries += !is_tried;
    spill->retry_ns = amb_deadline_ns(topic->shard->now_ns, pause_ns);
    spill_later(topic, spill->retry_ns);
    walk->is_over = true;
    if (is_tried) {
        spill_make_room(walk, position);
    }
}

/* This one and spill_gpu: true where nothing is left to be done about it. */
static bool spill_leased(struct spill_walk *walk, uint64_t position)
{
    struct amb_topic *topic = walk->topic;
    if (walk->copied >= SPILL_STEP_BYTES) {
        amb_topic_mark(topic);
        walk->is_over = true;
        return false;
    }
    if (!spill_may_ask(walk)) {
        return false;
    }
    if (!amb_relocate_leased(topic, position, true)) {
        spill_lacks(walk, position);
        return false;
    }
    const struct amb_entry *copy = amb_log_at(&topic->log, position);
    walk->copied += copy->data_len;
    spill_count(topic, position, copy);
    return true;
}

static void spill_failed(struct amb_topic *topic, uint64_t position, const struct amb_entry *entry)
{
    if (position >= topic->spill.failed_upto) { /* It may be come by again. */
        topic->spill.failed_upto = position + 1;
        topic->spill.failed += entry->count;
    }
}

static bool spill_gpu(struct spill_walk *walk, uint64_t position, struct amb_entry *entry)
{
    struct amb_topic *topic = walk->topic;
    if (!amb_gpu_pool_is_sound(entry->segment->gpu)) {
        return true; /* Nothing more is taken in there, and nothing can be read. */
    }
    if (entry->has_window && position >= topic->ungranted) {
        /* Its publisher's window comes back by this entry, and not by its copy. */
        spill_later(topic, amb_deadline_ns(topic->shard->now_ns, AMB_SPILL_AFTER_NS));
        return false;
    }
    if (entry->twin_state != AMB_TWIN_READY && walk->coming != 0 &&
        walk->coming + entry->data_len > SPILL_COMING_BYTES) {
        walk->is_over = true; /* The topic is walked when one of those has come. */
        return false;
    }
    /* A borrower may have heard of that just now. */
    bool is_short = entry->twin_state == AMB_TWIN_NO_MEMORY;
    if (is_short) {
        if (!spill_may_ask(walk)) {
            return false;
        }
        spill_lacks(walk, position);
        if (walk->tail.from > position) { /* It has gone itself. */
            return false;
        }
    }
    struct amb_entry *twin = amb_twin_get(topic->shard, entry);
    if (twin == NULL && entry->twin_state == AMB_TWIN_NO_MEMORY) {
        if (!is_short) {
            spill_lacks(walk, position);
        }
        return false;
    }
    if (twin != NULL) {
        amb_relocate_to_twin(topic, position, twin);
        spill_count(topic, position, twin);
        return true;
    }
    if (entry->twin_state == AMB_TWIN_COMING) {
        walk->coming += entry->data_len;
        return false;
    }
    spill_failed(topic, position, entry);
    return true;
}

static void spill_move(struct spill_walk *walk)
{
    struct amb_topic *topic = walk->topic;
    struct amb_topic_spill *spill = &topic->spill;
    bool is_back = walk->tail.from < spill->from; /* Somebody comes from further back. */
    spill->from = walk->tail.from;
    spill->next = is_back || spill->next < spill->from ? spill->from : spill->next;
    uint64_t end = walk->tail.upto;
    if (end > spill->next + SPILL_LOOKS) {
        end = spill->next + SPILL_LOOKS;
    }
    bool is_whole = true; /* Nothing before is left to be moved. */
    for (uint64_t position = spill->next; position < end && !walk->is_over; position++) {
        struct amb_entry *entry = amb_log_at(&topic->log, position);
        if (entry->is_leased && !AMB_FAULT(SPILL_STAYS)) {
            if (!spill_is_due(walk, position, entry)) {
                return; /* Entries behind it came to the log later. */
            }
            is_whole = (entry->segment->gpu != NULL ? spill_gpu(walk, position, entry)
                                                    : spill_leased(walk, position)) &&
                       is_whole;
        }
        spill->next = is_whole ? position + 1 : spill->next;
    }
    if (is_whole && !walk->is_over && end < walk->tail.upto) {
        amb_topic_mark(topic);
    }
}

void amb_spill_walk(struct amb_topic *topic)
{
    struct spill_walk walk = {.topic = topic};
    amb_topic_tail(topic, &walk.tail);
    spill_bound_others(&walk);
    spill_bound(&walk);
    spill_move(&walk);
}

int64_t amb_spill_tick(struct amb_shard *shard)
{
    if (shard->now_ns >= shard->spill.due_ns) {
        struct amb_list_node *node;
        shard->spill.due_ns = INT64_MAX;
        while ((node = amb_list_pop_front(&shard->spill.waiting)) != NULL) {
            amb_topic_mark(AMB_CONTAINER_OF(node, struct amb_topic, spill.node));
        }
    }
    return shard->spill.due_ns;
}

bool amb_spill_is_on(const struct amb_cursor *cursor)
{
    return cursor->hold.spills && cursor->position < cursor->topic->spill.moved;
}

uint64_t amb_spill_waiting(const struct amb_cursor *cursor)
{
    const struct amb_topic *topic = cursor->topic;
    const struct amb_log *log = &topic->log;
    if (!amb_spill_is_on(cursor) || topic->spill.moved <= log->lo) {
        return 0;
    }
    uint64_t from = cursor->position < log->lo ? log->lo : cursor->position;
    return amb_log_bytes_from(log, from) - amb_log_bytes_from(log, topic->spill.moved);
}
