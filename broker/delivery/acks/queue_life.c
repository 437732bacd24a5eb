/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_life.h"

#include "broker/config/config.h"
#include "broker/count/counters_slots.h"
#include "broker/delivery/acks/queue_kept.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/shard/purse.h"
#include "broker/topic/cursor.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "wire/codec/filter.h"

#include <stdlib.h>

struct amb_queue *amb_shard_queue(const struct amb_shard *shard, uint64_t id)
{
    struct amb_idmap_node *node = amb_idmap_find(&shard->queues.known, id);
    return node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_queue, known);
}

static void queue_swept(struct amb_sweep *sweep)
{
    amb_queue_free_if_done(AMB_CONTAINER_OF(sweep, struct amb_queue, sweep));
}

enum amb_status amb_queue_create(struct amb_shard *shard, uint64_t id,
                                 const struct amb_queue_options *options, struct amb_party *party,
                                 struct amb_queue **out)
{
    struct amb_queue *queue = calloc(1, sizeof(*queue));
    struct amb_purse *purse = amb_purse_find(shard, party);
    bool lacks_purse = purse == NULL && amb_purse_is_due(party);
    if (queue == NULL || lacks_purse ||
        amb_idmap_put(&shard->queues.known, &queue->known, id) != AMB_OK) {
        amb_purse_unref(&purse);
        free(queue);
        return AMB_ENOMEM;
    }
    queue->shard = shard;
    queue->id = id;
    queue->options = *options;
    amb_list_init(&queue->dirty);
    amb_list_init(&queue->lacking);
    amb_list_init(&queue->cursors);
    amb_list_init(&queue->hungry);
    amb_list_init(&queue->seats);
    amb_sifter_init(&queue->sifter);
    queue->purse = queue->sifter.purse = purse;
    amb_heap_init(&queue->heap, UINT64_MAX);
    amb_heap_pay(&queue->heap, purse == NULL ? NULL : purse->account);
    amb_sweep_init(&queue->sweep, &queue->cursors, queue_swept);
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        amb_list_init(&queue->ready[rank]);
    }
    *out = queue;
    return AMB_OK;
}

void amb_queue_free_if_done(struct amb_queue *queue)
{
    if (queue->is_closed && queue->takes == 0 && queue->seat_count == 0 &&
        amb_list_is_empty(&queue->cursors)) {
        amb_list_remove(&queue->sweep.node); /* Its last cursors may have gone with their topics. */
        amb_list_remove(&queue->dirty);
        amb_list_remove(&queue->lacking);
        amb_sifter_fini(&queue->sifter);
        amb_filter_free(&queue->filter);
        amb_heap_leave(&queue->heap);
        amb_purse_unref(&queue->purse);
        amb_idmap_fini(&queue->again);
        free(queue->later);
        free(queue);
    }
}

void amb_queue_close(struct amb_queue *queue)
{
    amb_idmap_remove(&queue->shard->queues.known, &queue->known);
    amb_counters_give_numbers(queue->shard->counters, &queue->counters_slot);
    amb_list_remove(&queue->dirty);
    amb_list_remove(&queue->lacking);
    if (!amb_sweep_first(queue->shard, &queue->cursors)) {
        amb_sweep_begin(queue->shard, &queue->sweep);
    }
    queue->is_closed = true; /* A trace says so of what goes with it. */
    amb_queue_drop_kept(queue);
    amb_queue_free_if_done(queue);
}

void amb_queues_fini(struct amb_shard *shard)
{
    struct amb_idmap_node *node;
    while ((node = amb_idmap_any(&shard->queues.known)) != NULL) {
        amb_queue_close(AMB_CONTAINER_OF(node, struct amb_queue, known));
    }
    amb_idmap_fini(&shard->queues.known);
}

/* With members it may hold publishers back, without it never does. */
static void cursor_hold(const struct amb_queue *queue, struct amb_cursor *cursor)
{
    const struct amb_topic_rule *rule = cursor->topic->rule;
    bool is_by_rule = queue->options.slow == AMB_SLOW_DEFAULT;
    enum amb_slow slow = is_by_rule ? rule->slow : queue->options.slow;
    int64_t limit_ns = is_by_rule ? rule->slow_block_ns : queue->options.slow_block_ns;
    bool holds = slow == AMB_SLOW_BLOCK && queue->seat_count > 0;
    if (holds != cursor->hold.holds || limit_ns != cursor->hold.limit_ns) {
        /* Time that has passed counts no more; and a member that comes back begins anew. */
        amb_list_remove(&cursor->hold.blocked);
        cursor->hold.since_ns = 0;
        cursor->hold.is_dropping = cursor->hold.is_dropping && holds;
    }
    cursor->hold.holds = holds;
    amb_topic_reader_changed(cursor->topic, &cursor->position);
    cursor->hold.limit_ns = limit_ns;
    amb_cursor_spill(cursor, slow == AMB_SLOW_SPILL);
    if (amb_cursor_has_next(cursor)) {
        amb_topic_mark(cursor->topic);
    }
}

enum amb_status amb_queue_attach(struct amb_queue *queue, struct amb_topic *topic,
                                 const struct amb_begun *begun)
{
    struct amb_cursor *cursor = calloc(1, sizeof(*cursor));
    if (cursor == NULL) {
        return AMB_ENOMEM;
    }
    amb_cursor_attach(cursor, topic, NULL, AMB_SLOW_DROP_OLDEST, INT64_MAX, begun);
    cursor->queue = queue;
    cursor->pick.filter = queue->filter;
    cursor->pick.sifter = &queue->sifter;
    cursor->is_picky = true; /* The forwarder asks no more than that of all others. */
    amb_list_push_back(&queue->cursors, &cursor->of_sub);
    amb_priority_join(cursor);
    queue->has_priorities = queue->has_priorities || topic->priority != AMB_PRIORITY_NORMAL;
    cursor_hold(queue, cursor);
    return AMB_OK;
}

/* From here on it wants that of its topics. Takes it over. */
static void queue_filter(struct amb_queue *queue, struct amb_filter *filter)
{
    amb_filter_free(&queue->filter);
    queue->filter = filter;
    AMB_LIST_FOR_EACH (node, &queue->cursors) { /* Messages that the former has passed say
                                                 * nothing. */
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_sub);
        cursor->pick.filter = filter;
        cursor->pick.blob = (struct amb_cursor_blob){0};
    }
}

static void queue_members_changed(struct amb_queue *queue)
{
    AMB_LIST_FOR_EACH (node, &queue->cursors) {
        cursor_hold(queue, AMB_CONTAINER_OF(node, struct amb_cursor, of_sub));
    }
    amb_queue_mark(queue);
}

void amb_queue_join(struct amb_queue *queue, struct amb_seat *seat,
                    const struct amb_queue_options *options, struct amb_filter **filter)
{
    seat->queue = queue;
    amb_list_push_back(&queue->seats, &seat->node);
    queue->seat_count++;
    queue->credit_msgs += seat->credit_msgs;
    queue->credit_bytes += seat->credit_bytes;
    /* Members' workers are not equally fast: as the directory counts, so it is here. */
    if (seat->to.sub > queue->newest) {
        queue->newest = seat->to.sub;
        queue->options = *options;
        queue_filter(queue, *filter);
        *filter = NULL;
    }
    queue_members_changed(queue);
}

void amb_queue_seat_gone(struct amb_mail *mail, void *owner)
{
    struct amb_seat *seat = AMB_CONTAINER_OF(mail, struct amb_seat, leave);
    struct amb_queue *queue = seat->queue;
    (void)owner;
    if (queue != NULL) {
        amb_list_remove(&seat->node);
        queue->seat_count--;
        queue->credit_msgs -= seat->credit_msgs;
        queue->credit_bytes -= seat->credit_bytes;
        if (queue->is_closed) {
            amb_queue_free_if_done(queue);
        } else {
            queue_members_changed(queue);
        }
    }
    free(seat);
}

void amb_queue_seat_kicked(struct amb_mail *mail, void *owner)
{
    struct amb_seat *seat = AMB_CONTAINER_OF(mail, struct amb_seat, kick);
    (void)owner;
    /* From here on its worker may post it again. */
    atomic_store_explicit(&seat->is_kicked, 0, memory_order_seq_cst);
    if (seat->queue != NULL && !seat->queue->is_closed) {
        amb_queue_mark(seat->queue);
    }
}

uint64_t amb_queue_out(const struct amb_queue *queue)
{
    uint64_t out = 0;
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        out += amb_seat_out(AMB_CONTAINER_OF(node, struct amb_seat, node));
    }
    return out;
}
