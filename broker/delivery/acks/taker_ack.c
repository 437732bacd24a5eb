/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/taker_ack.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/acks/taker_seat.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/codec/frame.h"

#include <string.h>

/* A part of it goes home ahead. Without memory it stays, and expires. */
static uint32_t take_cut(struct amb_taker *taker, struct amb_take *take, uint32_t first,
                         const struct amb_frame *frame, const char *reason)
{
    struct amb_take *cut = amb_take_get(taker->shard);
    if (cut == NULL) {
        return 0;
    }
    uint32_t cleared = amb_take_clear(take, first, frame->count, cut);
    if (cleared == 0) {
        amb_take_put(taker->shard, cut);
        return 0;
    }
    cut->home = take->home;
    cut->queue = take->queue;
    cut->come_home = take->come_home;
    cut->of = take;
    cut->to = take->to;
    cut->delay_ns = frame->time_ns;
    cut->reason = reason == NULL ? NULL : strdup(reason);
    bool is_nak = frame->status == AMB_ACK_KIND_NAK;
    *(is_nak ? &taker->naked : &taker->termed) += cleared;
    amb_seat_back(taker, cleared, cut->bytes);
    amb_take_go_home(taker->shard, cut, is_nak ? AMB_TAKE_NAK : AMB_TAKE_TERM);
    return cleared;
}

static uint32_t take_settle(struct amb_taker *taker, struct amb_take *take, uint32_t first,
                            uint32_t count)
{
    uint64_t bytes = take->bytes;
    uint32_t cleared = amb_take_clear(take, first, count, NULL);
    taker->acked += cleared;
    take->acked += cleared;
    amb_seat_back(taker, cleared, bytes - take->bytes);
    return cleared;
}

/* Its time begins anew. Of cumulative ones that of all does, for they stay in order. It is said
 * once, however many they are, for a later message is due later. */
static void take_prolong(struct amb_taker *taker, struct amb_take *take)
{
    int64_t due_ns = amb_deadline_ns(taker->shard->now_ns, taker->ack_wait_ns);
    if (taker->ack != AMB_ACK_CUMULATIVE) {
        take->due_ns = due_ns;
        amb_list_remove(&take->node);
        amb_list_push_back(&taker->pending, &take->node);
        return;
    }
    taker->prolonged_ns = due_ns;
}

/* A cumulative ACK says it of all deliveries before this one, too. */
static void taker_settle_before(struct amb_taker *taker, uint64_t number)
{
    AMB_LIST_FOR_EACH_SAFE (node, &taker->pending) {
        struct amb_take *take = AMB_CONTAINER_OF(node, struct amb_take, node);
        if (take->number >= number) {
            return;
        }
        (void)take_settle(taker, take, take->first, take->count);
        amb_seat_end(taker, take, AMB_TAKE_SETTLED);
    }
}

static enum amb_status taker_apply(struct amb_taker *taker, const struct amb_frame *frame,
                                   const char *reason)
{
    bool is_up_to = taker->ack == AMB_ACK_CUMULATIVE && frame->status == AMB_ACK_KIND_ACK;
    if (is_up_to) {
        amb_former_ack_before(taker, frame->number);
        taker_settle_before(taker, frame->number);
    }
    struct amb_idmap_node *node = amb_idmap_find(&taker->known, frame->number);
    struct amb_take *take = node == NULL ? amb_former_find(taker, frame->number)
                                         : AMB_CONTAINER_OF(node, struct amb_take, known);
    if (take != NULL && frame->first + frame->count > take->count) {
        return amb_session_broken(taker->sub->session,
                                  "the client acknowledges what it was not given");
    }
    if (node == NULL) {
        taker->late += frame->count; /* Settled already, or it has expired. */
        if (take != NULL) {
            amb_former_said(taker, take, frame);
        }
        return AMB_OK;
    }
    uint32_t first = take->first + frame->first, done = frame->count;
    switch ((enum amb_ack_kind)frame->status) {
    case AMB_ACK_KIND_ACK:
        if (AMB_FAULT(ACK_IGNORED) && frame->number % 8 == 0) {
            return AMB_OK;
        }
        done = is_up_to ? take_settle(taker, take, take->first, frame->first + frame->count)
                        : take_settle(taker, take, first, frame->count);
        break;
    case AMB_ACK_KIND_NAK:
    case AMB_ACK_KIND_TERM:
        done = take_cut(taker, take, first, frame, reason);
        break;
    case AMB_ACK_KIND_IN_PROGRESS:
        take_prolong(taker, take);
        break;
    }
    taker->late += done < frame->count ? frame->count - done : 0;
    if (take->left == 0) {
        amb_seat_end(taker, take, AMB_TAKE_SETTLED);
    }
    return AMB_OK;
}

static struct amb_taker_waiter *taker_next_waiter(struct amb_taker *taker)
{
    AMB_LIST_FOR_EACH (node, &taker->waiters) {
        struct amb_taker_waiter *waiter = AMB_CONTAINER_OF(node, struct amb_taker_waiter, node);
        if (waiter->frames <= taker->frames) {
            return waiter;
        }
    }
    return NULL;
}

static void taker_tell_waiters(struct amb_taker *taker)
{
    struct amb_subscription *sub = taker->sub;
    const struct amb_session *session = sub->session;
    uint32_t handle = sub->handle;
    struct amb_taker_waiter *waiter;
    while ((waiter = taker_next_waiter(taker)) != NULL) {
        amb_list_remove(&waiter->node);
        taker->waiter_count--;
        waiter->done(waiter, sub);
        if (amb_session_subscription(session, handle) == NULL) {
            return; /* It was waited for with its end. */
        }
    }
}

enum amb_status amb_taker_ack(struct amb_session *session, const struct amb_frame *frame,
                              const char *reason)
{
    struct amb_subscription *sub = amb_session_subscription(session, frame->handle);
    if (sub == NULL || sub->has_ended) {
        session->frames_ignored++;
        return AMB_OK;
    }
    struct amb_taker *taker = sub->taker;
    if (taker == NULL || taker->ack == AMB_ACK_NONE) {
        return amb_session_broken(session, "the client acknowledges where nobody asked for it");
    }
    if (frame->number > sub->delivered) {
        return amb_session_broken(session, "the client acknowledges what it was not given");
    }
    taker->frames++;
    enum amb_status status = taker_apply(taker, frame, reason);
    if (!amb_list_is_empty(&taker->waiters)) {
        taker_tell_waiters(taker);
    }
    return status;
}

enum amb_status amb_taker_wait(struct amb_taker *taker, struct amb_taker_waiter *waiter)
{
    if (waiter->frames <= taker->frames) {
        waiter->done(waiter, taker->sub);
        return AMB_OK;
    }
    if (taker->waiter_count == AMB_TAKER_WAITERS_MAX) {
        return AMB_ELIMIT;
    }
    taker->waiter_count++;
    amb_list_push_back(&taker->waiters, &waiter->node);
    return AMB_OK;
}
