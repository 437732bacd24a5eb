/* SPDX-License-Identifier: Apache-2.0 */
#include "client/subscribe/arrivals.h"

#include "client/conn/conn.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/message/landing.h"
#include "client/message/returns.h"
#include "client/subscribe/ack.h"
#include "wire/base/assert.h"
#include "wire/codec/topic.h"

#include <stdlib.h>
#include <string.h>

/* ---- topics ---- */

static uint32_t topic_cell(const struct amb_topic_table *table, uint32_t id)
{
    uint32_t i = (id * UINT32_C(2654435769)) & table->mask;
    while (table->cells[i].name != NULL && table->cells[i].id != id) {
        i = (i + 1) & table->mask;
    }
    return i;
}

static bool topic_grow(struct amb_topic_table *table)
{
    struct amb_topic_table grown = {.mask = table->cells == NULL ? 15 : table->mask * 2 + 1};
    grown.cells = calloc((size_t)grown.mask + 1, sizeof(*grown.cells));
    if (grown.cells == NULL) {
        return false;
    }
    for (uint32_t i = 0; table->cells != NULL && i <= table->mask; i++) {
        if (table->cells[i].name != NULL) {
            grown.cells[topic_cell(&grown, table->cells[i].id)] = table->cells[i];
            grown.count++;
        }
    }
    free(table->cells);
    *table = grown;
    return true;
}

struct amb_topic_name *amb_sub_topic_add(struct amb_sub *sub, uint32_t topic, uint32_t len)
{
    struct amb_topic_table *table = &sub->topics.table;
    if ((table->cells == NULL || table->count * 2 > table->mask) && !topic_grow(table)) {
        return NULL;
    }
    struct amb_topic_name *name = calloc(1, sizeof(*name));
    if (name == NULL) {
        return NULL;
    }
    amb_assert(len < sizeof(name->name));
    name->len = len;
    name->order = ++sub->topics.names;
    name->life = sub->conn->session.life;
    amb_list_push_back(&sub->conn->receive.topics, &name->node);
    /* A known id with a new name: messages that came before keep the old one. */
    uint32_t i = topic_cell(table, topic);
    name->former = table->cells[i].name;
    table->count += table->cells[i].name == NULL;
    table->cells[i].id = topic;
    table->cells[i].name = name;
    return name;
}

void amb_sub_topic_named(struct amb_topic_name *name)
{
    const struct amb_topic_name *former = name->former;
    name->former = NULL;
    if (former != NULL && former->life != name->life && strcmp(former->name, name->name) == 0) {
        name->resumes_at = former->next_seq;
    }
}

void amb_sub_topics_forget(struct amb_sub *sub)
{
    free(sub->topics.table.cells);
    sub->topics.table = (struct amb_topic_table){.cells = NULL};
}

struct amb_topic_name *amb_sub_topic_find(const struct amb_sub *sub, uint32_t topic)
{
    if (sub->topics.table.cells == NULL) {
        return NULL;
    }
    return sub->topics.table.cells[topic_cell(&sub->topics.table, topic)].name;
}

/* ---- arrivals ---- */

void amb_sub_has_ranks(struct amb_sub *sub)
{
    /* A message that is overtaken here would grow old: the broker has counted its ack_wait since it
     * left. And a cumulative acknowledgement covers all that were delivered before. */
    if (sub->arrivals.has_ranks || sub->acks.mode != AMB_ACK_NONE) {
        return;
    }
    amb_release_at_once(&sub->release);
    amb_spinlock_lock(&sub->lock);
    sub->arrivals.has_ranks = true;
    sub->arrivals.lower[0] = sub->arrivals.list.next;
    sub->arrivals.lower[1] = &sub->arrivals.list;
    amb_spinlock_unlock(&sub->lock);
}

/* Behind its like, before what is lower. */
static void insert_ranked(struct amb_sub *sub, struct amb_arrival *arrival)
{
    unsigned rank = amb_priority_rank(arrival->topic->priority);
    struct amb_list_node *where =
        rank < AMB_PRIORITIES - 1 ? sub->arrivals.lower[rank] : &sub->arrivals.list;
    amb_list_insert_before(where, &arrival->node);
    for (unsigned i = 0; i < rank; i++) {
        if (sub->arrivals.lower[i] == where) {
            sub->arrivals.lower[i] = &arrival->node;
        }
    }
}

static void arrived_remove(struct amb_sub *sub, struct amb_arrival *arrival)
{
    if (__builtin_expect(sub->arrivals.has_ranks, 0)) {
        for (unsigned i = 0; i < 2; i++) {
            if (sub->arrivals.lower[i] == &arrival->node) {
                sub->arrivals.lower[i] = arrival->node.next;
            }
        }
    }
    amb_list_remove(&arrival->node);
}

const struct amb_arrival *amb_sub_begun(const struct amb_sub *sub,
                                        const struct amb_topic_name *topic)
{
    const struct amb_list_node *first[3] = {sub->arrivals.list.next, sub->arrivals.lower[0],
                                            sub->arrivals.lower[1]};
    for (unsigned i = 0; i < (sub->arrivals.has_ranks ? 3u : 1u); i++) {
        const struct amb_arrival *arrival =
            AMB_CONTAINER_OF((struct amb_list_node *)(uintptr_t)first[i], struct amb_arrival, node);
        if (first[i] != &sub->arrivals.list && arrival->topic == topic && arrival->taken > 0) {
            return arrival;
        }
    }
    return NULL;
}

enum amb_status amb_sub_append(struct amb_sub *sub, struct amb_arrival *arrival)
{
    enum amb_status status = amb_release_arrived(&sub->release, arrival->count, arrival->body_len);
    if (status != AMB_OK) {
        return status;
    }
    arrival->sub = sub;
    atomic_fetch_add_explicit(&sub->refs, 1, memory_order_relaxed);
    amb_spinlock_lock(&sub->lock);
    if (__builtin_expect(sub->arrivals.has_ranks, 0)) {
        insert_ranked(sub, arrival);
    } else {
        amb_list_push_back(&sub->arrivals.list, &arrival->node);
    }
    amb_spinlock_unlock(&sub->lock);
    return AMB_OK;
}

static enum amb_status check_body(const struct amb_arrival *arrival)
{
    const struct amb_frame *frame = &arrival->frame;
    if (__builtin_expect(frame->type == AMB_FRAME_LAZY, 0)) {
        return amb_lazy_check(frame, arrival->body);
    }
    return amb_frame_is_leased(frame->type)
               ? amb_leased_check(frame, arrival->body, arrival->base_size)
               : amb_body_check(frame, arrival->body);
}

enum amb_status amb_sub_ready(struct amb_arrival *arrival, enum amb_status status)
{
    struct amb_sub *sub = arrival->sub;
    if (status == AMB_OK && check_body(arrival) != AMB_OK) {
        return AMB_EPROTO;
    }
    amb_spinlock_lock(&sub->lock);
    arrival->has_failed = status != AMB_OK;
    if (!arrival->has_failed) {
        struct amb_message_view view;
        if (amb_frame_is_leased(arrival->frame.type)) {
            amb_body_iter_init_leased(&arrival->iter, arrival->base, arrival->body,
                                      arrival->frame.count);
        } else if (arrival->frame.type == AMB_FRAME_LAZY) {
            amb_body_iter_init_lazy(&arrival->iter, &arrival->frame, arrival->body);
        } else {
            amb_body_iter_init(&arrival->iter, arrival->body, arrival->frame.data_len,
                               arrival->frame.count);
        }
        for (uint32_t i = 0; i < arrival->skip; i++) {
            (void)amb_body_iter_next(&arrival->iter, &view);
        }
    }
    arrival->is_ready = true;
    struct amb_list_node *head = sub->arrivals.list.next;
    bool is_first = head == &arrival->node;
    if (is_first) {
        /* Release: pairs with the look of a waiter that does not hold the subscription's lock. */
        atomic_store_explicit(&sub->arrivals.has_ready, true, memory_order_release);
    }
    amb_spinlock_unlock(&sub->lock);
    if (is_first) {
        amb_conn_changed(sub->conn);
        amb_notify_message(sub->conn);
    }
    if (atomic_load_explicit(&sub->life.is_shut, memory_order_relaxed)) {
        amb_sub_shut(sub);
    }
    return AMB_OK;
}

/* Counts a delivery whose bytes never came as lost before the next one. */
static void skip_failed(struct amb_sub *sub, struct amb_arrival *arrival)
{
    arrived_remove(sub, arrival);
    arrival->topic->next = arrival->seq + arrival->count;
    if (sub->acks.mode != AMB_ACK_NONE) { /* It comes again. */
        sub->arrivals.carry_lost = amb_lost_sum(sub->arrivals.carry_lost, arrival->lost);
        sub->arrivals.carry_loss = arrival->lost != 0 ? arrival->loss : sub->arrivals.carry_loss;
        return;
    }
    sub->arrivals.carry_lost =
        amb_lost_sum(sub->arrivals.carry_lost, amb_lost_sum(arrival->lost, arrival->count));
    sub->arrivals.carry_loss = sub->arrivals.carry_loss == AMB_LOSS_NONE && arrival->lost == 0
                                   ? AMB_LOSS_TRANSFER
                                   : AMB_LOSS_MIXED;
}

static size_t take_from(struct amb_sub *sub, struct amb_arrival *arrival, struct amb_msg **out,
                        size_t max)
{
    if (arrival->taken == 0) {
        if (sub->arrivals.carry_lost != 0) {
            arrival->loss = arrival->lost == 0 ? sub->arrivals.carry_loss : AMB_LOSS_MIXED;
            arrival->lost = amb_lost_sum(arrival->lost, sub->arrivals.carry_lost);
            sub->arrivals.carry_lost = 0;
            sub->arrivals.carry_loss = AMB_LOSS_NONE;
        }
        sub->arrivals.lost += arrival->lost != UINT64_MAX ? arrival->lost : 0; /* unknowable */
    }
    size_t n = amb_arrival_take(arrival, out, max);
    sub->arrivals.delivered += n;
    sub->arrivals.last_seq = arrival->seq + arrival->frame.above + arrival->taken - 1;
    if (arrival->taken == arrival->count) {
        arrival->topic->next = arrival->seq + arrival->count;
        arrived_remove(sub, arrival);
    }
    return n;
}

size_t amb_sub_take_plain(struct amb_sub *sub, struct amb_msg **out, size_t max)
{
    size_t taken = 0;
    struct amb_arrival *failed[8];
    unsigned failed_count = 0;
    amb_spinlock_lock(&sub->lock);
    bool is_ready;
    for (;;) {
        struct amb_list_node *head = sub->arrivals.list.next;
        struct amb_arrival *arrival = AMB_CONTAINER_OF(head, struct amb_arrival, node);
        is_ready = head != &sub->arrivals.list && arrival->is_ready;
        if (!is_ready || taken == max || failed_count == 8) {
            break;
        }
        if (arrival->has_failed) {
            skip_failed(sub, arrival);
            failed[failed_count++] = arrival;
        } else {
            taken += take_from(sub, arrival, out + taken, max - taken);
        }
    }
    if (!is_ready) {
        atomic_store_explicit(&sub->arrivals.has_ready, false, memory_order_relaxed);
    }
    amb_spinlock_unlock(&sub->lock);
    for (unsigned i = 0; i < failed_count; i++) {
        if (sub->acks.mode != AMB_ACK_NONE) {
            amb_acks_refuse(failed[i]);
        }
        amb_arrival_release(failed[i], failed[i]->count);
    }
    return taken;
}

void amb_sub_shut(struct amb_sub *sub)
{
    atomic_store_explicit(&sub->life.is_shut, true, memory_order_relaxed);
    struct amb_list_node gone;
    amb_list_init(&gone);
    amb_spinlock_lock(&sub->lock);
    AMB_LIST_FOR_EACH_SAFE (node, &sub->arrivals.list) {
        struct amb_arrival *arrival = AMB_CONTAINER_OF(node, struct amb_arrival, node);
        if (!arrival->is_ready) {
            continue; /* The link still writes its body. */
        }
        arrived_remove(sub, arrival);
        amb_list_push_back(&gone, node);
    }
    atomic_store_explicit(&sub->arrivals.has_ready, false, memory_order_relaxed);
    amb_spinlock_unlock(&sub->lock);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&gone)) != NULL) {
        struct amb_arrival *arrival = AMB_CONTAINER_OF(node, struct amb_arrival, node);
        uint32_t left = arrival->count - arrival->taken;
        if (atomic_fetch_sub_explicit(&arrival->refs, left, memory_order_acq_rel) == left) {
            (void)amb_mpsc_push(&sub->conn->returned, &arrival->returned);
        }
    }
    if (sub->landing != NULL) {
        amb_msg_release(amb_landing_let_go(sub->landing));
    }
    amb_arrival_take_back(sub->conn);
}
