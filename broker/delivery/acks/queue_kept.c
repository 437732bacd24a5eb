/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_kept.h"

#include "broker/delivery/acks/queue_private.h"
#include "broker/delivery/acks/queue_take.h"
#include "broker/shard/entry.h"
#include "broker/topic/topic.h"
#include "wire/base/clock.h"

#include <stdlib.h>

#define KEPT_HEAP (sizeof(struct amb_take) + sizeof(struct amb_take *) + AMB_HEAP_OVERHEAD)
#define SORT_STEPS 64u /* of one search for a place among those that are ready */

static void later_place(struct amb_queue *queue, size_t i, struct amb_take *take)
{
    queue->later[i] = take;
    take->later_at = (uint32_t)i;
}

/* Up from place i, where it may stand. */
static void later_rise(struct amb_queue *queue, size_t i, struct amb_take *take)
{
    while (i > 0 && queue->later[(i - 1) / 2]->due_ns > take->due_ns) {
        later_place(queue, i, queue->later[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    later_place(queue, i, take);
}

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
    later_rise(queue, queue->later_count++, take);
    return true;
}

/* The last one comes to its place i, and goes on from there. */
static void later_remove(struct amb_queue *queue, size_t i)
{
    struct amb_take *last = queue->later[--queue->later_count];
    if (i == queue->later_count) {
        return;
    }
    for (size_t child = 2 * i + 1; child < queue->later_count; child = 2 * i + 1) {
        if (child + 1 < queue->later_count &&
            queue->later[child + 1]->due_ns < queue->later[child]->due_ns) {
            child++;
        }
        if (queue->later[child]->due_ns >= last->due_ns) {
            break;
        }
        later_place(queue, i, queue->later[child]);
        i = child;
    }
    later_rise(queue, i, last);
}

static struct amb_take *later_pop(struct amb_queue *queue)
{
    struct amb_take *first = queue->later[0];
    later_remove(queue, 0);
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

void amb_queue_count_kept(struct amb_queue *queue, const struct amb_take *take)
{
    amb_heap_take(&queue->heap, KEPT_HEAP);
    queue->kept_msgs += take->left;
    queue->kept_bytes += take->bytes;
}

/* The queue's worker wakes then, if not before. */
static void queue_wake_by(struct amb_queue *queue, int64_t due_ns)
{
    if (due_ns < queue->shard->queues.due_ns) {
        queue->shard->queues.due_ns = due_ns;
    }
}

void amb_queue_keep(struct amb_queue *queue, struct amb_take *take, int64_t delay_ns)
{
    amb_queue_count_kept(queue, take);
    take->is_kept = true;
    if (delay_ns > 0) {
        take->due_ns = amb_deadline_ns(queue->shard->now_ns, delay_ns);
        if (later_push(queue, take)) {
            queue_wake_by(queue, take->due_ns);
            return;
        }
    }
    ready_put(queue, take);
    amb_queue_mark(queue);
}

void amb_queue_pause(struct amb_queue *queue)
{
    if (amb_list_is_empty(&queue->lacking)) {
        queue->retry_ns = amb_deadline_ns(queue->shard->now_ns, AMB_TAKE_PAUSE_NS);
        amb_list_push_back(&queue->shard->queues.lacking, &queue->lacking);
    }
}

void amb_queue_keep_back(struct amb_queue *queue, struct amb_take *take)
{
    amb_queue_count_kept(queue, take);
    take->is_kept = true;
    ready_put(queue, take);
    amb_queue_pause(queue);
}

/* From here on it is of messages first to first + count - 1 alone. The others are settled, which
 * its tally hears now, or are another take's. */
static void take_narrow(struct amb_take *take, uint32_t first, uint32_t count)
{
    amb_queue_take_tell(take);
    take->first = first;
    take->count = count;
}

/* That run of its open messages, as a take of its own. NULL: no memory. */
static struct amb_take *take_split(struct amb_queue *queue, struct amb_take *take, uint32_t first,
                                   uint32_t count)
{
    struct amb_take *part = amb_queue_take_make(queue, take->topic, take->entry, first, count);
    if (part == NULL) {
        return NULL;
    }
    uint64_t bytes = take->bytes;
    (void)amb_take_clear(take, first, count, NULL);
    part->bytes = bytes - take->bytes;
    amb_queue_take_tally(part, take->tally);
    amb_queue_take_again(part, take->attempt);
    return part;
}

bool amb_queue_keep_rest(struct amb_queue *queue, struct amb_take *take, int64_t delay_ns)
{
    uint32_t first = take->first, end = take->first + take->count, count;
    amb_queue_take_again(take, take->attempt);
    while (amb_take_run(take, &first, &count)) {
        if (count == take->left) { /* The last run is the take itself. */
            take_narrow(take, first, count);
            amb_queue_keep(queue, take, delay_ns);
            return true;
        }
        struct amb_take *part = take_split(queue, take, first, count);
        if (part == NULL) {
            take_narrow(take, first, end - first);
            if (delay_ns > 0) {
                amb_queue_keep(queue, take, delay_ns);
            } else {
                amb_queue_keep_back(queue, take);
            }
            return false;
        }
        amb_queue_keep(queue, part, delay_ns);
        first += count;
    }
    amb_queue_take_drop(take);
    return true;
}

void amb_queue_unkeep(struct amb_queue *queue, const struct amb_take *take)
{
    amb_heap_give(&queue->heap, KEPT_HEAP);
    queue->kept_msgs -= take->left;
    queue->kept_bytes -= take->bytes;
}

void amb_queue_take_out(struct amb_queue *queue, struct amb_take *take)
{
    amb_queue_unkeep(queue, take);
    take->is_kept = false;
    if (!amb_list_is_empty(&take->node)) {
        amb_list_remove(&take->node);
    } else {
        later_remove(queue, take->later_at);
    }
}

struct amb_take *amb_queue_ready(const struct amb_queue *queue, unsigned rank_max)
{
    for (unsigned rank = 0; rank <= rank_max; rank++) {
        if (!amb_list_is_empty(&queue->ready[rank])) {
            return AMB_CONTAINER_OF(queue->ready[rank].next, struct amb_take, node);
        }
    }
    return NULL;
}

void amb_queue_wake_kept(struct amb_queue *queue, int64_t *next_ns)
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

void amb_queue_drop_kept(struct amb_queue *queue)
{
    struct amb_take *take;
    while ((take = amb_queue_ready(queue, RANK_LAST)) != NULL) {
        amb_list_remove(&take->node);
        amb_queue_take_drop(take);
    }
    while (queue->later_count > 0) {
        amb_queue_take_drop(later_pop(queue));
    }
}
