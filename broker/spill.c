/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/spill.h"

#include "broker/config.h"
#include "broker/entry.h"
#include "broker/gpupool.h"
#include "broker/pick.h"
#include "broker/reclaim.h"
#include "broker/relocate.h"
#include "broker/segment.h"
#include "broker/shard.h"
#include "broker/subscription.h"
#include "broker/topic.h"
#include "broker/twin.h"
#include "wire/base/clock.h"

#define SPILL_LOOKS UINT64_C(1024)                  /* entries looked at in one walk */
#define SPILL_STEP_BYTES (UINT64_C(1) << 20)        /* copied in one walk, and one entry more */
#define SPILL_COMING_BYTES (UINT64_C(64) << 20)     /* with the copier, or one entry */
#define SPILL_ENTRIES_MAX (AMB_LOG_ENTRIES_MAX / 2) /* of a tail: others need some of a log too */
#define SPILL_TRIES 3u                              /* for memory, then something has to go */

/* One walk through a tail. */
struct spill_walk {
    struct amb_topic *topic;
    struct amb_topic_tail tail;
    uint64_t copied, coming; /* bytes */
    bool is_over;            /* what comes behind waits for another walk */
};

/* The topic is walked again then. */
static void spill_later(struct amb_topic *topic, int64_t at_ns)
{
    struct amb_shard *shard = topic->shard;
    if (amb_list_is_empty(&topic->spill.node)) {
        amb_list_push_back(&shard->spilling, &topic->spill.node);
    }
    shard->spill_ns = at_ns < shard->spill_ns ? at_ns : shard->spill_ns;
}

/* What is too much ------------------------------------------------------------------------------
 */

/* Who is too slow even for a log goes on as with a full log, but for its entries, which stay. */
static void spill_bound_others(struct spill_walk *walk)
{
    struct amb_topic *topic = walk->topic;
    struct amb_topic_tail *tail = &walk->tail;
    uint64_t may =
        topic->rule->full == AMB_FULL_DROP_OLDEST ? topic->log.hi : amb_topic_held_from(topic);
    while (tail->upto < may && tail->upto + 1 < topic->log.hi && amb_topic_is_over(topic, tail)) {
        AMB_LIST_FOR_EACH (node, &topic->cursors) {
            struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
            if (cursor->slow == AMB_SLOW_DISCONNECT && cursor->position <= tail->upto) {
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
    uint64_t most = walk->topic->rule->spill_max;
    while (tail->from + 1 < tail->upto && (tail->upto - tail->from > SPILL_ENTRIES_MAX ||
                                           amb_topic_tail_bytes(walk->topic, tail) > most)) {
        spill_drop(walk);
    }
}

/* What is moved ---------------------------------------------------------------------------------
 */

static void spill_count(struct amb_topic *topic, uint64_t position, const struct amb_entry *entry)
{
    struct amb_spill *spill = &topic->spill;
    spill->moved = position + 1 > spill->moved ? position + 1 : spill->moved;
    spill->msgs += entry->count;
    spill->bytes += entry->data_len;
    spill->tries = 0;
    amb_stat_add(&topic->shard->stats.spilled, entry->count);
    amb_stat_add(&topic->shard->stats.spilled_bytes, entry->data_len);
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (cursor->spills && cursor->sub != NULL && cursor->position <= position) {
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
    int64_t left_ns = entry->time_ns + AMB_SPILL_AFTER_NS - shard->real_ns;
    if (left_ns <= 0 ||
        (position + 1 < walk->tail.upto && amb_topic_tail_bytes(topic, &rest) > AMB_TOPIC_DEPTH)) {
        return true;
    }
    spill_later(topic, amb_deadline_ns(shard->now_ns, left_ns));
    return false;
}

/* There is no memory for that one. Others have been asked for some; if that does not help the
 * oldest go. True: try once more. */
static bool spill_make_room(struct spill_walk *walk, uint64_t position)
{
    struct amb_topic *topic = walk->topic;
    struct amb_topic_tail *tail = &walk->tail;
    if (++topic->spill.tries < SPILL_TRIES) {
        spill_later(topic, amb_deadline_ns(topic->shard->now_ns, AMB_RECLAIM_PAUSE_NS));
        walk->is_over = true;
        return false;
    }
    uint64_t want = amb_log_at(&topic->log, position)->data_len, freed = 0;
    while (freed < want && tail->from <= position && tail->from < tail->upto) {
        freed += amb_entry_charge(amb_log_at(&topic->log, tail->from));
        spill_drop(walk);
    }
    if (tail->from > position) { /* It has gone itself. */
        amb_topic_mark(topic);
        walk->is_over = true;
        return false;
    }
    amb_topic_trim(topic);
    return true;
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
    while (!amb_relocate_leased(topic, position)) {
        if (!spill_make_room(walk, position)) {
            return false;
        }
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
    if (entry->twin_state != AMB_TWIN_READY && walk->coming != 0 &&
        walk->coming + entry->data_len > SPILL_COMING_BYTES) {
        walk->is_over = true; /* The topic is walked when one of those has come. */
        return false;
    }
    struct amb_entry *twin = NULL;
    do { /* A borrower may have heard of that just now. */
        if (entry->twin_state == AMB_TWIN_NO_MEMORY && !spill_make_room(walk, position)) {
            return false;
        }
        twin = amb_twin_get(topic->shard, entry);
    } while (twin == NULL && entry->twin_state == AMB_TWIN_NO_MEMORY);
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
    struct amb_spill *spill = &topic->spill;
    spill->next = spill->next < walk->tail.from ? walk->tail.from : spill->next;
    uint64_t end = walk->tail.upto;
    if (end > spill->next + SPILL_LOOKS) {
        end = spill->next + SPILL_LOOKS;
    }
    bool is_whole = true; /* Nothing before is left to be moved. */
    for (uint64_t position = spill->next; position < end && !walk->is_over; position++) {
        struct amb_entry *entry = amb_log_at(&topic->log, position);
        if (entry->is_leased) {
            if (!spill_is_due(walk, position, entry)) {
                return;
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
    if (shard->now_ns >= shard->spill_ns) {
        struct amb_list_node *node;
        shard->spill_ns = INT64_MAX;
        while ((node = amb_list_pop_front(&shard->spilling)) != NULL) {
            amb_topic_mark(AMB_CONTAINER_OF(node, struct amb_topic, spill.node));
        }
    }
    return shard->spill_ns;
}

bool amb_spill_is_on(const struct amb_cursor *cursor)
{
    return cursor->spills && cursor->position < cursor->topic->spill.moved;
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
