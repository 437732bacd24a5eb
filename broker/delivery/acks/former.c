/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/former.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/queue_late.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/codec/frame.h"

#include <limits.h>
#include <string.h>

#define FORMER_HEAP (sizeof(struct amb_take) + AMB_HEAP_OVERHEAD)

static void former_out(struct amb_taker *taker, struct amb_take *former)
{
    amb_idmap_remove(&taker->formers.known, &former->known);
    amb_list_remove(&former->node);
    amb_list_remove(&former->kin);
    if (!taker->is_leaving) {
        taker->sub->session->formers--;
        amb_heap_give(&taker->sub->session->heap, FORMER_HEAP);
    }
}

static void former_forget(struct amb_taker *taker, struct amb_take *former)
{
    former_out(taker, former);
    amb_take_put(taker->shard, former);
}

/* All that is left of it is settled: it goes home. */
static void former_settle(struct amb_taker *taker, struct amb_take *former)
{
    former_out(taker, former);
    if (AMB_FAULT(LATE_ACK_IGNORED)) {
        amb_take_put(taker->shard, former);
        return;
    }
    amb_take_post(taker->shard, former->home, &former->mail, amb_queue_late_ack);
}

/* A cumulative ACK has settled it, and home has not heard yet. */
static bool former_is_settled(const struct amb_taker *taker, const struct amb_take *former)
{
    return former->number < taker->formers.settled_before;
}

struct amb_take *amb_former_find(const struct amb_taker *taker, uint64_t number)
{
    struct amb_idmap_node *node = amb_idmap_find(&taker->formers.known, number);
    return node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_take, known);
}

/* A session's members share its heap, and takes need most of that. So one that
 * was released goes for the next. False: there is no room. */
static bool formers_make_room(struct amb_taker *taker)
{
    const struct amb_session *session = taker->sub->session;
    const struct amb_heap_account *heap = &session->heap;
    uint64_t most = heap->limit / AMB_FORMERS_HEAP_SHARE / FORMER_HEAP;
    most = most < AMB_FORMERS_MAX ? most : AMB_FORMERS_MAX;
    if (session->formers >= most) {
        const struct amb_list_node *released = &taker->formers.released;
        if (amb_list_is_empty(released)) {
            return false;
        }
        struct amb_take *first = AMB_CONTAINER_OF(released->next, struct amb_take, kin);
        if (former_is_settled(taker, first)) {
            former_settle(taker, first);
        } else {
            former_forget(taker, first);
        }
    }
    return amb_heap_may_go_on(heap, FORMER_HEAP);
}

void amb_former_note(struct amb_taker *taker, const struct amb_take *take)
{
    struct amb_take *former = formers_make_room(taker) ? amb_take_get(taker->shard) : NULL;
    if (former == NULL) {
        return;
    }
    if (amb_idmap_put(&taker->formers.known, &former->known, take->number) != AMB_OK) {
        amb_take_put(taker->shard, former);
        return;
    }
    former->home = take->home;
    former->key = take->key;
    former->number = take->number;
    former->first = take->first;
    former->count = take->count;
    former->left = take->left;
    memcpy(former->bits, take->bits, sizeof(former->bits));
    amb_list_init(&former->kin);
    if (amb_delivery_is_released(taker->sub, take->number)) {
        amb_list_push_back(&taker->formers.released, &former->kin);
    }
    taker->sub->session->formers++;
    amb_heap_take(&taker->sub->session->heap, FORMER_HEAP);
    amb_list_push_back(&taker->formers.list, &former->node);
}

/* Without memory home does not hear of a part, and its messages come again. */
static void former_settle_part(struct amb_taker *taker, struct amb_take *former, uint32_t first,
                               uint32_t count)
{
    if (first == former->first && count == former->count) {
        former_settle(taker, former);
        return;
    }
    struct amb_take *ack = amb_take_get(taker->shard);
    if (ack == NULL) {
        return;
    }
    if (amb_take_clear(former, first, count, ack) == 0 || AMB_FAULT(LATE_ACK_IGNORED)) {
        amb_take_put(taker->shard, ack);
        return;
    }
    ack->key = former->key;
    amb_take_post(taker->shard, former->home, &ack->mail, amb_queue_late_ack);
    if (former->left == 0) {
        former_forget(taker, former);
    }
}

/* These come again. A cumulative ACK that follows does not mean them. */
static void former_refuse(struct amb_taker *taker, struct amb_take *former, uint32_t first,
                          uint32_t count)
{
    (void)amb_take_clear(former, first, count, NULL);
    if (former->left == 0) {
        former_forget(taker, former);
    }
}

void amb_former_said(struct amb_taker *taker, struct amb_take *former,
                     const struct amb_frame *frame)
{
    uint32_t first = former->first + frame->first;
    if (former_is_settled(taker, former)) {
        return;
    }
    switch ((enum amb_ack_kind)frame->status) {
    case AMB_ACK_KIND_ACK:
        if (taker->ack == AMB_ACK_CUMULATIVE) {
            former_settle_part(taker, former, former->first, frame->first + frame->count);
        } else {
            former_settle_part(taker, former, first, frame->count);
        }
        break;
    case AMB_ACK_KIND_NAK:
    case AMB_ACK_KIND_TERM:
        former_refuse(taker, former, first, frame->count);
        break;
    case AMB_ACK_KIND_IN_PROGRESS:
        break;
    }
}

/* A turn is known by its time. */
static unsigned *formers_budget(struct amb_shard *shard)
{
    struct amb_shard_takers *takers = &shard->takers;
    if (takers->settled_ns != shard->now_ns) {
        takers->settled_ns = shard->now_ns;
        takers->settle_budget = AMB_FORMERS_TURN;
    }
    return &takers->settle_budget;
}

/* The next one that is settled and has not gone home; NULL. Cumulative ones stand by number in the
 * list, for their time is over in that order. */
static struct amb_take *formers_next(const struct amb_taker *taker)
{
    const struct amb_list_node *list = &taker->formers.list;
    struct amb_take *former = AMB_CONTAINER_OF(list->next, struct amb_take, node);
    return !amb_list_is_empty(list) && former_is_settled(taker, former) ? former : NULL;
}

/* False: the budget is spent. */
static bool formers_settle(struct amb_taker *taker, unsigned *budget)
{
    struct amb_take *former;
    while ((former = formers_next(taker)) != NULL) {
        if (*budget == 0) {
            return false;
        }
        --*budget;
        former_settle(taker, former);
    }
    return true;
}

/* More of them go home in the next turns. */
static void formers_line_up(struct amb_taker *taker)
{
    struct amb_shard *shard = taker->shard;
    if (amb_list_is_empty(&taker->formers.settling)) {
        amb_list_push_back(&shard->takers.settling, &taker->formers.settling);
        shard->takers.retry_ns = shard->now_ns;
    }
}

void amb_former_ack_before(struct amb_taker *taker, uint64_t number)
{
    struct amb_formers *formers = &taker->formers;
    struct amb_shard *shard = taker->shard;
    if (number > formers->settled_before) {
        formers->settled_before = number;
    }
    if (formers_settle(taker, formers_budget(shard))) {
        amb_list_remove(&formers->settling);
    } else {
        formers_line_up(taker);
    }
}

/* False: the budget is spent. */
static bool formers_settle_all(struct amb_shard *shard, unsigned *budget)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&shard->takers.settling)) != NULL) {
        struct amb_taker *taker = AMB_CONTAINER_OF(node, struct amb_taker, formers.settling);
        if (!formers_settle(taker, budget) ||
            (taker->is_leaving && !amb_taker_leave_on(taker, budget))) {
            amb_list_push_back(&shard->takers.settling, node); /* Others are next. */
            return false;
        }
    }
    return true;
}

unsigned amb_formers_run(struct amb_shard *shard, int64_t *next_ns)
{
    unsigned *budget = formers_budget(shard), had = *budget;
    if (!formers_settle_all(shard, budget)) {
        *next_ns = shard->now_ns;
    }
    return had - *budget;
}

void amb_formers_finish(struct amb_shard *shard)
{
    unsigned all = UINT_MAX;
    (void)formers_settle_all(shard, &all);
}

bool amb_formers_leave(struct amb_taker *taker)
{
    struct amb_session *session = taker->sub->session;
    if (formers_settle(taker, formers_budget(taker->shard))) {
        amb_list_remove(&taker->formers.settling);
        return true;
    }
    formers_line_up(taker);
    session->formers -= (uint32_t)taker->formers.known.count;
    amb_heap_give(&session->heap, taker->formers.known.count * FORMER_HEAP);
    return false;
}

void amb_former_released(struct amb_taker *taker, uint64_t number)
{
    struct amb_take *former = amb_former_find(taker, number);
    if (former != NULL) {
        amb_list_push_back(&taker->formers.released, &former->kin);
    }
}

void amb_formers_fini(struct amb_taker *taker)
{
    amb_list_remove(&taker->formers.settling);
    AMB_LIST_FOR_EACH_SAFE (node, &taker->formers.list) {
        former_forget(taker, AMB_CONTAINER_OF(node, struct amb_take, node));
    }
    amb_idmap_fini(&taker->formers.known);
}
