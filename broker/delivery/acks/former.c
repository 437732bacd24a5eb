/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/former.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/queue_late.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/codec/frame.h"

#include <string.h>

#define FORMER_HEAP (sizeof(struct amb_take) + AMB_HEAP_OVERHEAD)

static void former_forget(struct amb_taker *taker, struct amb_take *former)
{
    amb_idmap_remove(&taker->formers.known, &former->known);
    amb_list_remove(&former->node);
    taker->sub->session->formers--;
    amb_heap_give(&taker->sub->session->heap, FORMER_HEAP);
    amb_take_put(taker->shard, former);
}

struct amb_take *amb_former_find(const struct amb_taker *taker, uint64_t number)
{
    struct amb_idmap_node *node = amb_idmap_find(&taker->formers.known, number);
    return node == NULL ? NULL : AMB_CONTAINER_OF(node, struct amb_take, known);
}

/* A session's members share its heap, and takes need most of that. */
static bool formers_have_room(struct amb_taker *taker)
{
    const struct amb_session *session = taker->sub->session;
    const struct amb_heap_account *heap = &session->heap;
    uint64_t most = heap->limit / AMB_FORMERS_HEAP_SHARE / FORMER_HEAP;
    most = most < AMB_FORMERS_MAX ? most : AMB_FORMERS_MAX;
    if (session->formers >= most) {
        if (amb_list_is_empty(&taker->formers.list)) {
            return false;
        }
        struct amb_take *first = AMB_CONTAINER_OF(taker->formers.list.next, struct amb_take, node);
        if (!first->is_released) {
            return false;
        }
        former_forget(taker, first);
    }
    return amb_heap_may_go_on(heap, FORMER_HEAP);
}

void amb_former_note(struct amb_taker *taker, const struct amb_take *take)
{
    struct amb_take *former = formers_have_room(taker) ? amb_take_get(taker->shard) : NULL;
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
    former->is_released = amb_subscription_has_back(taker->sub, take->number);
    taker->sub->session->formers++;
    amb_heap_take(&taker->sub->session->heap, FORMER_HEAP);
    amb_list_push_back(&taker->formers.list, &former->node);
}

/* Home hears of it. Without memory it does not, and the messages come again. */
static void former_settle(struct amb_taker *taker, struct amb_take *former, uint32_t first,
                          uint32_t count)
{
    struct amb_take *word = amb_take_get(taker->shard);
    if (word == NULL) {
        return;
    }
    if (amb_take_clear(former, first, count, word) == 0 || AMB_FAULT(LATE_ACK_IGNORED)) {
        amb_take_put(taker->shard, word);
        return;
    }
    word->key = former->key;
    amb_take_post(taker->shard, former->home, &word->mail, amb_queue_late_ack);
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
    switch ((enum amb_ack_kind)frame->status) {
    case AMB_ACK_KIND_ACK:
        if (taker->ack == AMB_ACK_CUMULATIVE) {
            former_settle(taker, former, former->first, frame->first + frame->count);
        } else {
            former_settle(taker, former, first, frame->count);
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

/* They stand by number there: their time is over in their order. */
void amb_former_ack_before(struct amb_taker *taker, uint64_t number)
{
    AMB_LIST_FOR_EACH_SAFE (node, &taker->formers.list) {
        struct amb_take *former = AMB_CONTAINER_OF(node, struct amb_take, node);
        if (former->number >= number) {
            return;
        }
        former_settle(taker, former, former->first, former->count);
    }
}

void amb_former_released(struct amb_taker *taker, uint64_t number)
{
    struct amb_take *former = amb_former_find(taker, number);
    if (former == NULL) {
        return;
    }
    former->is_released = true;
    if (taker->ack != AMB_ACK_CUMULATIVE) { /* Those stay by number. */
        amb_list_remove(&former->node);
        amb_list_push_front(&taker->formers.list, &former->node);
    }
}

void amb_formers_fini(struct amb_taker *taker)
{
    AMB_LIST_FOR_EACH_SAFE (node, &taker->formers.list) {
        former_forget(taker, AMB_CONTAINER_OF(node, struct amb_take, node));
    }
    amb_idmap_fini(&taker->formers.known);
}
