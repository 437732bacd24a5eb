/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_private.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/delivery/acks/queue_choose.h"
#include "broker/delivery/acks/queue_kept.h"
#include "broker/delivery/acks/queue_take.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/reader/pick.h"
#include "broker/delivery/reader/recall.h"
#include "broker/shard/entry.h"
#include "broker/shard/tally.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"

/* The entry for the member's worker. False: no memory for it, and nothing has happened. */
static bool queue_lend(const struct amb_queue *queue, const struct amb_seat *seat,
                       struct amb_take *take)
{
    struct amb_shard *shard = queue->shard;
    if (seat->shard == shard) {
        take->lent = take->entry;
        amb_entry_ref(take->entry);
    } else {
        take->lent = amb_entry_lend(take->entry, shard);
    }
    return take->lent != NULL;
}

/* A take whose entry is lent. It is the member's from here on. */
static void queue_give(struct amb_queue *queue, struct amb_seat *seat, struct amb_take *take)
{
    struct amb_shard *shard = queue->shard;
    seat->given_msgs += take->left;
    seat->given_bytes += take->bytes;
    queue->given += take->left;
    queue->given_remote += seat->nearness == AMB_NEARNESS_REMOTE ? take->left : 0;
    take->to = seat->to;
    if (queue->seat_count > 1) {
        amb_list_remove(&seat->node); /* Of those with equal credit the next one is first. */
        amb_list_push_back(&queue->seats, &seat->node);
    }
    amb_take_post(shard, seat->shard, &take->mail, amb_taker_arrived);
}

static bool is_by_nearness(const struct amb_topic *topic)
{
    return topic->rule->prefer == AMB_PREFER_NEAR;
}

/* The first n messages of a take that is kept, as a take of their own for a member. The gap before
 * them goes with them. NULL: no memory. */
static struct amb_take *redeliver_part(struct amb_queue *queue, struct amb_take *take, uint32_t n)
{
    struct amb_take *part = amb_queue_take_make(queue, take->topic, take->entry, take->first, n);
    if (part == NULL) {
        return NULL;
    }
    amb_queue_unkeep(queue, take);
    amb_queue_take_given(part, take->tally);
    amb_queue_take_again(part, take->attempt);
    part->lost = take->lost;
    part->loss = take->loss;
    take->lost = 0;
    take->loss = AMB_LOSS_NONE;
    (void)amb_take_clear(take, take->first, n, NULL);
    take->first += n;
    take->count -= n;
    amb_queue_count_kept(queue, take);
    return part;
}

/* Messages that are ready, up to that rank, go out again. False: some of it cannot, now. */
static bool queue_redeliver(struct amb_queue *queue, unsigned rank_max)
{
    struct amb_take *take;
    while ((take = amb_queue_ready(queue, rank_max)) != NULL) {
        if (take->left < take->count) { /* Some of it is settled, and must not go out again. */
            amb_queue_take_out(queue, take);
            if (!amb_queue_keep_rest(queue, take, 0)) {
                return false;
            }
            continue;
        }
        struct amb_seat *seat;
        const struct amb_choice choice = {
            .entry = take->entry,
            .first = take->first,
            .count = take->count,
            .is_by_nearness = take->attempt == 0 && is_by_nearness(take->topic),
            .now_ns = queue->shard->now_ns,
        };
        uint32_t n = amb_queue_choose(queue, &choice, &seat);
        if (n == 0) {
            return false;
        }
        struct amb_take *part = take;
        if (n < take->count) {
            part = redeliver_part(queue, take, n);
            if (part == NULL) {
                amb_queue_pause(queue);
                return false;
            }
        } else {
            amb_queue_take_out(queue, take);
        }
        if (!queue_lend(queue, seat, part)) {
            amb_queue_keep_back(queue, part); /* Marked, this turn would try it without end. */
            return false;
        }
        if (part->attempt > 0) {
            queue->redelivered += part->left;
            amb_stat_add(&queue->shard->stats->msgs_redelivered, part->left);
        }
        queue_give(queue, seat, part);
    }
    return true;
}

static bool queue_may_feed(const struct amb_queue *queue)
{
    return queue->kept_msgs == 0 ||
           (queue->kept_msgs < queue->credit_msgs && queue->kept_bytes < queue->credit_bytes);
}

/* The messages that are missing before `seq`. */
static void feed_gap(struct amb_queue *queue, struct amb_cursor *cursor, uint64_t seq,
                     struct amb_take *take)
{
    struct amb_gap gap;
    amb_pick_loss(cursor, seq, &gap);
    take->lost = gap.lost;
    take->loss = gap.why;
    if (gap.lost != UINT64_MAX) {
        queue->lost += gap.lost;
        amb_stat_lost(queue->shard->stats, amb_gap_others(&gap), gap.expired, gap.purged,
                      gap.other == AMB_LOSS_SLOW);
    }
}

/* Gives a take that begins at `seq`, with the gap before it. False: it is gone without a trace, and
 * that gap stands before the next try. */
static bool feed_take(struct amb_queue *queue, struct amb_cursor *cursor, struct amb_seat *seat,
                      struct amb_take *take, uint64_t seq)
{
    if (!queue_lend(queue, seat, take)) {
        amb_queue_take_drop(take);
        amb_queue_pause(queue);
        return false;
    }
    amb_queue_take_given(take, amb_tally_of(take->entry, cursor->counts_from));
    if (seq > cursor->loss.expected_seq) {
        feed_gap(queue, cursor, seq, take);
    }
    queue_give(queue, seat, take);
    return true;
}

/* Gives the messages from cursor->within to `end`. False: not all of them now. */
static bool feed_run(struct amb_queue *queue, struct amb_cursor *cursor, struct amb_entry *entry,
                     uint32_t end)
{
    while (cursor->within < end) {
        struct amb_seat *seat;
        const struct amb_choice choice = {
            .entry = entry,
            .first = cursor->within,
            .count = end - cursor->within,
            .is_by_nearness = is_by_nearness(cursor->topic),
            .now_ns = queue->shard->now_ns,
        };
        uint32_t n =
            queue->takes >= AMB_QUEUE_TAKES_MAX ? 0 : amb_queue_choose(queue, &choice, &seat);
        struct amb_take *take =
            n == 0 ? NULL : amb_queue_take_make(queue, cursor->topic, entry, cursor->within, n);
        if (take == NULL) {
            if (n != 0) {
                amb_queue_pause(queue); /* No credit comes for what nobody has. */
            }
            return false;
        }
        uint64_t seq = entry->first_seq + cursor->within;
        if (!feed_take(queue, cursor, seat, take, seq)) {
            return false;
        }
        cursor->within += n;
        cursor->loss.expected_seq = seq + n;
    }
    return true;
}

/* The rest of an entry, but for what has expired. */
static bool feed_entry(struct amb_queue *queue, struct amb_cursor *cursor, struct amb_entry *entry)
{
    if (entry->first_seq + cursor->within < cursor->loss.expected_seq &&
        !amb_pick_enter(cursor, entry)) {
        return true; /* Older than its beginning. */
    }
    if (!queue_may_feed(queue) ||
        !queue_redeliver(queue, amb_priority_rank(cursor->topic->priority))) {
        return false;
    }
    uint32_t end = entry->count;
    while (!amb_pick_chooses(cursor) ||
           (end = amb_pick_run(cursor, entry, queue->shard->now_ns)) != 0) {
        if (end == AMB_PICK_LATER || !feed_run(queue, cursor, entry, end)) {
            return false;
        }
        if (end == entry->count) {
            break;
        }
    }
    return true;
}

/* The cursor is walked again when there is credit, or steps. */
static void queue_hunger(struct amb_queue *queue, struct amb_cursor *cursor)
{
    bool waits_for_steps = cursor->pick.filter != NULL && !amb_list_is_empty(&cursor->stalled);
    if (!waits_for_steps) {
        amb_recall_let_go(cursor);
    }
    if (amb_list_is_empty(&cursor->stalled)) {
        amb_list_push_back(&queue->hungry, &cursor->stalled);
    }
}

bool amb_queue_feed(struct amb_cursor *cursor)
{
    struct amb_queue *queue = cursor->queue;
    while (amb_cursor_has_next(cursor)) {
        struct amb_entry *entry = amb_cursor_entry(cursor);
        if (entry == NULL) {
            if (!queue_may_feed(queue) || queue->seat_count == 0) {
                queue_hunger(queue, cursor);
                return false;
            }
            if (!amb_recall(cursor, AMB_PRELUDE_SLICE)) {
                return false; /* Its topic is marked when that has come. */
            }
            continue;
        }
        if (!feed_entry(queue, cursor, entry)) {
            queue_hunger(queue, cursor);
            return false;
        }
        amb_cursor_advance(cursor);
    }
    if (queue->has_priorities && amb_queue_ready(queue, RANK_LAST) != NULL) {
        amb_queue_mark(queue); /* Messages that come again, and have given way to this. */
    }
    return true;
}

/* Messages that come again do not go before anything new of a higher priority, which waits for
 * credit. The exception: the new message can only go when some of them have gone. */
static unsigned queue_turn_of(const struct amb_queue *queue)
{
    unsigned best = RANK_LAST;
    if (queue->has_priorities && queue_may_feed(queue) && queue->takes < AMB_QUEUE_TAKES_MAX) {
        AMB_LIST_FOR_EACH (node, &queue->hungry) {
            const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, stalled);
            unsigned rank = amb_priority_rank(cursor->topic->priority);
            best = rank < best ? rank : best;
        }
    }
    return best;
}

static void queues_wake(struct amb_shard *shard)
{
    int64_t next_ns = INT64_MAX;
    for (uint64_t i = 0; shard->queues.known.count > 0 && i <= shard->queues.known.mask; i++) {
        for (struct amb_idmap_node *node = shard->queues.known.buckets[i]; node != NULL;
             node = node->next) {
            amb_queue_wake_kept(AMB_CONTAINER_OF(node, struct amb_queue, known), &next_ns);
        }
    }
    shard->queues.due_ns = next_ns;
}

/* The one that lacks memory and tries again first: all pauses are equally long. NULL: none does. */
static struct amb_queue *queues_lacking(const struct amb_shard *shard)
{
    const struct amb_list_node *list = &shard->queues.lacking;
    return amb_list_is_empty(list) ? NULL : AMB_CONTAINER_OF(list->next, struct amb_queue, lacking);
}

static void queues_retry(struct amb_shard *shard)
{
    struct amb_queue *queue;
    for (unsigned left = AMB_QUEUES_RETRY_TURN;
         left > 0 && (queue = queues_lacking(shard)) != NULL && queue->retry_ns <= shard->now_ns;
         left--) {
        amb_list_remove(&queue->lacking);
        amb_queue_mark(queue);
    }
}

int64_t amb_queues_due(struct amb_shard *shard)
{
    const struct amb_queue *lacking = queues_lacking(shard);
    int64_t due_ns = shard->queues.due_ns;
    return lacking != NULL && lacking->retry_ns < due_ns ? lacking->retry_ns : due_ns;
}

void amb_queues_run(struct amb_shard *shard)
{
    if (shard->now_ns >= shard->queues.due_ns) {
        queues_wake(shard);
    }
    queues_retry(shard);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&shard->queues.dirty)) != NULL) {
        struct amb_queue *queue = AMB_CONTAINER_OF(node, struct amb_queue, dirty);
        if (!queue_redeliver(queue, queue_turn_of(queue))) {
            continue; /* Marked again when there is credit. */
        }
        while ((node = amb_list_pop_front(&queue->hungry)) != NULL) {
            amb_topic_mark(AMB_CONTAINER_OF(node, struct amb_cursor, stalled)->topic);
        }
    }
}
