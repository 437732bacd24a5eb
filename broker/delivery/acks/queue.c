/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_private.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/deadletter.h"
#include "broker/delivery/acks/queue_life.h"
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
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SORT_STEPS 64u /* of one search for a place among those that are ready */
#define RANK_LAST (AMB_PRIORITIES - 1)

/* Takes --------------------------------------------------------------------------------------- */

static void take_tally(struct amb_take *take, struct amb_tally *tally)
{
    take->tally = tally;
    if (tally != NULL) {
        tally->open++;
    }
}

/* With a reference on the entry of its own. NULL: not now. */
static struct amb_take *take_make(struct amb_queue *queue, struct amb_topic *topic,
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
    topic = topic->namesake != NULL ? topic->namesake : topic;
    take->topic = topic;
    take->come_home = amb_queue_take_home;
    amb_entry_ref(entry);
    topic->naming++;
    queue->takes++;
    amb_take_fill(take, first, count);
    take->bytes = amb_entry_bytes(entry) / entry->count * count;
    return take;
}

static void take_drop(struct amb_take *take)
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

/* What waits for its time: a heap ------------------------------------------------------------- */

static bool later_push(struct amb_queue *queue, struct amb_take *take)
{
    if (queue->later_count == queue->later_size) {
        size_t size = queue->later_size == 0 ? 16 : queue->later_size * 2;
        struct amb_take **grown = realloc(queue->later, size * sizeof(struct amb_take *));
        if (grown == NULL) {
            return false;
        }
        queue->later = grown;
        queue->later_size = size;
    }
    size_t i = queue->later_count++;
    while (i > 0 && queue->later[(i - 1) / 2]->due_ns > take->due_ns) {
        queue->later[i] = queue->later[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    queue->later[i] = take;
    return true;
}

static struct amb_take *later_pop(struct amb_queue *queue)
{
    struct amb_take *first = queue->later[0];
    struct amb_take *last = queue->later[--queue->later_count];
    size_t i = 0;
    for (size_t child = 1; child < queue->later_count; child = 2 * i + 1) {
        if (child + 1 < queue->later_count &&
            queue->later[child + 1]->due_ns < queue->later[child]->due_ns) {
            child++;
        }
        if (queue->later[child]->due_ns >= last->due_ns) {
            break;
        }
        queue->later[i] = queue->later[child];
        i = child;
    }
    queue->later[i] = last;
    return first;
}

/* About in the order of the log. */
static void ready_put(struct amb_queue *queue, struct amb_take *take)
{
    struct amb_list_node *ready = &queue->ready[amb_priority_rank(take->topic->priority)];
    struct amb_list_node *before = ready;
    uint64_t seq = take->entry->first_seq + take->first;
    for (unsigned i = 0; before->prev != ready && i < SORT_STEPS; i++) {
        const struct amb_take *other = AMB_CONTAINER_OF(before->prev, struct amb_take, node);
        if (other->topic == take->topic && other->entry->first_seq + other->first <= seq) {
            break;
        }
        before = before->prev;
    }
    amb_list_insert_before(before, &take->node);
}

static void queue_keep(struct amb_queue *queue, struct amb_take *take, int64_t delay_ns)
{
    queue->kept_msgs += take->left;
    queue->kept_bytes += take->bytes;
    if (delay_ns > 0) {
        take->due_ns = amb_deadline_ns(queue->shard->now_ns, delay_ns);
        if (later_push(queue, take)) {
            if (take->due_ns < queue->shard->queues.due_ns) {
                queue->shard->queues.due_ns = take->due_ns;
            }
            return;
        }
    }
    ready_put(queue, take);
    amb_queue_mark(queue);
}

static void queue_unkeep(struct amb_queue *queue, const struct amb_take *take)
{
    queue->kept_msgs -= take->left;
    queue->kept_bytes -= take->bytes;
}

/* Who gets it --------------------------------------------------------------------------------- */

/* How many messages of about so many bytes each it may be given now. */
static uint32_t seat_credit(const struct amb_seat *seat, uint64_t bytes_each, uint32_t most)
{
    uint64_t out = amb_seat_out(seat);
    if (out == 0) {
        uint64_t fit = bytes_each == 0 ? most : seat->credit_bytes / bytes_each;
        uint64_t n = fit < seat->credit_msgs ? fit : seat->credit_msgs;
        return n == 0 ? 1 : n < most ? (uint32_t)n : most; /* One always passes. */
    }
    if (__builtin_expect(atomic_load_explicit(&seat->is_full, memory_order_relaxed), 0)) {
        return 0;
    }
    uint64_t out_bytes =
        seat->given_bytes - atomic_load_explicit(&seat->back_bytes, memory_order_relaxed);
    if (out >= seat->credit_msgs || out_bytes >= seat->credit_bytes) {
        return 0;
    }
    uint64_t n = seat->credit_msgs - out;
    uint64_t fit = bytes_each == 0 ? n : (seat->credit_bytes - out_bytes) / bytes_each;
    n = fit < n ? fit : n;
    return n < most ? (uint32_t)n : most;
}

static uint32_t key_of(const struct amb_entry *entry, uint32_t index)
{
    return amb_entry_records(entry)[index].key_hash;
}

/* Highest random weight: when a member comes or goes only the keys move that are its own. */
static struct amb_seat *seat_of_key(const struct amb_queue *queue, uint32_t key)
{
    struct amb_seat *best = NULL;
    uint64_t most = 0;
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        uint64_t weight = (seat->to.sub << 32 ^ key) * UINT64_C(0x9e3779b97f4a7c15);
        weight = (weight ^ weight >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
        weight ^= weight >> 32;
        if (best == NULL || weight > most) {
            best = seat;
            most = weight;
        }
    }
    return best;
}

static struct amb_seat *seat_with_most_credit(const struct amb_queue *queue)
{
    struct amb_seat *best = NULL;
    uint64_t most = 0;
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        uint64_t out = amb_seat_out(seat);
        uint64_t left = out < seat->credit_msgs ? seat->credit_msgs - out : 0;
        if (left > most && seat_credit(seat, 0, 1) > 0) {
            best = seat;
            most = left;
        }
    }
    return best;
}

/* Who gets how many of the messages first .. first+count-1. 0: nobody has credit. */
static uint32_t queue_choose(const struct amb_queue *queue, const struct amb_entry *entry,
                             uint32_t first, uint32_t count, struct amb_seat **out)
{
    if (queue->seat_count == 0) {
        return 0;
    }
    uint32_t most = entry->is_leased ? 1 : count; /* By copy each is a delivery of its own. */
    struct amb_seat *seat = AMB_CONTAINER_OF(queue->seats.next, struct amb_seat, node);
    if (queue->seat_count > 1) {
        uint32_t key = key_of(entry, first), run = 1;
        seat = key == 0 ? seat_with_most_credit(queue) : seat_of_key(queue, key);
        while (run < most &&
               (key == 0 ? key_of(entry, first + run) == 0
                         : key_of(entry, first + run) != 0 &&
                               seat_of_key(queue, key_of(entry, first + run)) == seat)) {
            run++;
        }
        uint32_t share = (entry->count + queue->seat_count - 1) / queue->seat_count;
        most = key == 0 && run > share ? share : run;
    }
    *out = seat;
    return seat == NULL ? 0 : seat_credit(seat, amb_entry_bytes(entry) / entry->count, most);
}

/* False: no memory for it; it is still the caller's. */
static bool queue_give(struct amb_queue *queue, struct amb_seat *seat, struct amb_take *take)
{
    struct amb_shard *shard = queue->shard;
    if (seat->shard == shard) {
        take->lent = take->entry;
        amb_entry_ref(take->entry);
    } else {
        take->lent = amb_entry_lend(take->entry, shard);
        if (take->lent == NULL) {
            return false;
        }
    }
    seat->given_msgs += take->left;
    seat->given_bytes += take->bytes;
    queue->given += take->left;
    take->to = seat->to;
    if (queue->seat_count > 1) {
        amb_list_remove(&seat->node); /* Of those with equal credit the next one is first. */
        amb_list_push_back(&queue->seats, &seat->node);
    }
    amb_take_post(shard, seat->shard, &take->mail, amb_taker_arrived);
    return true;
}

/* The first of those that are ready, up to that rank. NULL: there is none. */
static struct amb_take *ready_first(const struct amb_queue *queue, unsigned rank_max)
{
    for (unsigned rank = 0; rank <= rank_max; rank++) {
        if (!amb_list_is_empty(&queue->ready[rank])) {
            return AMB_CONTAINER_OF(queue->ready[rank].next, struct amb_take, node);
        }
    }
    return NULL;
}

/* What is ready, up to that rank, goes out again. False: some of it cannot, now. */
static bool queue_redeliver(struct amb_queue *queue, unsigned rank_max)
{
    struct amb_take *take;
    while ((take = ready_first(queue, rank_max)) != NULL) {
        struct amb_seat *seat;
        uint32_t n = queue_choose(queue, take->entry, take->first, take->count, &seat);
        struct amb_take *part = take;
        if (n > 0 && n < take->count) {
            part = take_make(queue, take->topic, take->entry, take->first, n);
        }
        if (n == 0 || part == NULL) {
            return false;
        }
        queue_unkeep(queue, take);
        if (part != take) {
            take_tally(part, take->tally);
            part->attempt = take->attempt;
            part->lost = take->lost;
            part->loss = take->loss;
            take->lost = 0;
            take->loss = AMB_LOSS_NONE;
            (void)amb_take_clear(take, take->first, n, NULL);
            take->first += n;
            take->count -= n;
            queue->kept_msgs += take->left;
            queue->kept_bytes += take->bytes;
        } else {
            amb_list_remove(&take->node);
        }
        if (part->attempt > 0) {
            queue->redelivered += part->left;
            amb_stat_add(&queue->shard->stats.msgs_redelivered, part->left);
        }
        if (!queue_give(queue, seat, part)) {
            queue_keep(queue, part, 0);
            return false;
        }
    }
    return true;
}

/* New ones ------------------------------------------------------------------------------------ */

static bool queue_may_feed(const struct amb_queue *queue)
{
    return queue->kept_msgs == 0 ||
           (queue->kept_msgs < queue->credit_msgs && queue->kept_bytes < queue->credit_bytes);
}

/* What is missing before message `seq`. */
static void feed_gap(struct amb_queue *queue, struct amb_cursor *cursor, uint64_t seq,
                     struct amb_take *take)
{
    struct amb_gap gap;
    (void)amb_pick_loss(cursor, seq, &gap);
    take->lost = gap.lost;
    take->loss = gap.why;
    queue->lost += gap.lost == UINT64_MAX ? 0 : gap.lost;
}

/* Gives the messages from cursor->within to `end`. False: not all of them now. */
static bool feed_run(struct amb_queue *queue, struct amb_cursor *cursor, struct amb_entry *entry,
                     uint32_t end)
{
    while (cursor->within < end) {
        struct amb_seat *seat;
        uint32_t n = queue->takes >= AMB_QUEUE_TAKES_MAX
                         ? 0
                         : queue_choose(queue, entry, cursor->within, end - cursor->within, &seat);
        struct amb_take *take =
            n == 0 ? NULL : take_make(queue, cursor->topic, entry, cursor->within, n);
        if (take == NULL) {
            if (n != 0) {
                amb_queue_mark(queue); /* No credit comes for what nobody has. */
            }
            return false;
        }
        take_tally(take, amb_tally_of(entry, cursor->counts_from));
        uint64_t seq = entry->first_seq + cursor->within;
        if (seq > cursor->expected_seq) {
            feed_gap(queue, cursor, seq, take);
        }
        if (!queue_give(queue, seat, take)) {
            take_drop(take);
            return false;
        }
        cursor->within += n;
        cursor->expected_seq = seq + n;
    }
    return true;
}

/* The rest of an entry, but for what has expired. */
static bool feed_entry(struct amb_queue *queue, struct amb_cursor *cursor, struct amb_entry *entry)
{
    if (entry->first_seq + cursor->within < cursor->expected_seq &&
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
    bool waits_for_steps = cursor->filter != NULL && !amb_list_is_empty(&cursor->stalled);
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
    if (queue->has_priorities && ready_first(queue, RANK_LAST) != NULL) {
        amb_queue_mark(queue); /* What comes again, and has given way to this. */
    }
    return true;
}

/* What comes again does not go before anything new of a higher priority, which waits for credit;
 * unless that can only go when some of it has gone. */
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

static void queue_wake_later(struct amb_queue *queue, int64_t *next_ns)
{
    while (queue->later_count > 0) {
        if (queue->later[0]->due_ns > queue->shard->now_ns) {
            *next_ns = queue->later[0]->due_ns < *next_ns ? queue->later[0]->due_ns : *next_ns;
            return;
        }
        ready_put(queue, later_pop(queue));
        amb_queue_mark(queue);
    }
}

static void queues_wake(struct amb_shard *shard)
{
    int64_t next_ns = INT64_MAX;
    for (uint64_t i = 0; shard->queues.known.count > 0 && i <= shard->queues.known.mask; i++) {
        for (struct amb_idmap_node *node = shard->queues.known.buckets[i]; node != NULL;
             node = node->next) {
            queue_wake_later(AMB_CONTAINER_OF(node, struct amb_queue, known), &next_ns);
        }
    }
    shard->queues.due_ns = next_ns;
}

void amb_queues_run(struct amb_shard *shard)
{
    if (shard->now_ns >= shard->queues.due_ns) {
        queues_wake(shard);
    }
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

void amb_queue_drop_kept(struct amb_queue *queue)
{
    struct amb_take *take;
    while ((take = ready_first(queue, RANK_LAST)) != NULL) {
        amb_list_remove(&take->node);
        take_drop(take);
    }
    while (queue->later_count > 0) {
        take_drop(later_pop(queue));
    }
}

/* What comes home ----------------------------------------------------------------------------- */

static void take_die(struct amb_queue *queue, struct amb_take *take, const char *reason)
{
    uint32_t first = take->first, count;
    while (amb_take_run(take, &first, &count)) {
        for (uint32_t i = first; i < first + count; i++) {
            amb_deadletter(queue->shard, take->topic->name, take->entry, i, take->attempt + 1,
                           reason);
        }
        first += count;
    }
    if (queue->dead == 0) { /* Said once a queue; counted always. */
        amb_warn("topic %s: message %" PRIu64 " is given up (%s); so may be others: see %s%s",
                 amb_topic_shown(take->topic->name),
                 take->entry->first_seq + take->entry->above + take->first, reason,
                 AMB_DEADLETTER_PREFIX, amb_topic_shown(take->topic->name));
    }
    queue->dead += take->left;
    amb_stat_add(&queue->shard->stats.msgs_dead, take->left);
    take_drop(take);
}

/* What is left of a take that came back goes out again, run by run. */
static void take_again(struct amb_queue *queue, struct amb_take *take, int64_t delay_ns)
{
    uint32_t first = take->first, count;
    uint64_t each = take->left == 0 ? 0 : take->bytes / take->left;
    while (amb_take_run(take, &first, &count)) {
        struct amb_take *part =
            count == take->count ? take : take_make(queue, take->topic, take->entry, first, count);
        if (part == NULL) {
            /* Neither memory nor room for one more: the hole goes out again with the rest. */
            amb_take_fill(take, take->first, take->count);
            part = take;
        }
        if (part != take) {
            take_tally(part, take->tally);
        }
        part->attempt = take->attempt;
        part->bytes = each * part->left;
        if (part == take) {
            queue_keep(queue, take, delay_ns);
            return;
        }
        queue_keep(queue, part, delay_ns);
        first += count;
    }
    take_drop(take);
}

static int64_t queue_backoff(const struct amb_queue *queue, uint32_t attempt)
{
    const struct amb_queue_options *options = &queue->options;
    if (options->backoff_count == 0) {
        return 0;
    }
    uint32_t last = options->backoff_count - 1;
    return options->backoff_ns[attempt < last ? attempt : last];
}

/* A delivery was in vain. */
static void take_failed(struct amb_queue *queue, struct amb_take *take)
{
    uint32_t most = queue->options.max_deliver;
    if (most != 0 && take->attempt + 1 >= most) {
        char reason[48];
        (void)snprintf(reason, sizeof(reason), "delivered %u times", take->attempt + 1);
        take_die(queue, take, reason);
        return;
    }
    int64_t delay_ns = take->end == AMB_TAKE_LEFT ? 0
                       : take->delay_ns > 0       ? take->delay_ns * !AMB_FAULT(NAK_DELAY_IGNORED)
                                                  : queue_backoff(queue, take->attempt);
    take->attempt += !AMB_FAULT(ATTEMPT_NOT_RAISED);
    take_again(queue, take, delay_ns);
}

void amb_queue_take_home(struct amb_mail *mail, void *owner)
{
    struct amb_take *take = AMB_CONTAINER_OF(mail, struct amb_take, mail);
    struct amb_queue *queue = take->queue;
    (void)owner;
    if (take->of != NULL) {
        take->entry = take->of->entry;
        take->topic = take->of->topic;
        take_tally(take, take->of->tally);
        take->of = NULL;
        amb_entry_ref(take->entry);
        take->topic->naming++;
        queue->takes++;
    }
    take->lost = take->end == AMB_TAKE_UNSENT ? take->lost : 0;
    take->loss = take->lost == 0 ? AMB_LOSS_NONE : take->loss;
    if (take->end == AMB_TAKE_SETTLED || queue->is_closed) {
        take_drop(take);
        if (queue->is_closed) {
            amb_queue_free_if_done(queue);
        }
        return;
    }
    switch (take->end) {
    case AMB_TAKE_UNSENT:
        queue_keep(queue, take, 0);
        break;
    case AMB_TAKE_TERM: {
        char *reason = take->reason;
        take->reason = NULL;
        take_die(queue, take, reason == NULL ? "terminated" : reason);
        free(reason);
        break;
    }
    case AMB_TAKE_LEFT:
    case AMB_TAKE_EXPIRED:
    case AMB_TAKE_NAK:
    case AMB_TAKE_SETTLED:
        take_failed(queue, take);
        break;
    }
}
