/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/taker.h"

#include "broker/delivery/acks/taker_ack.h"
#include "broker/delivery/acks/taker_seat.h"
#include "broker/delivery/acks/taker_send.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define EXPIRE_BUDGET 1024u /* takes that go home in one turn */
/* With its seat. */
#define TAKER_HEAP                                                                                 \
    (sizeof(struct amb_taker) + sizeof(struct amb_seat) + 2 * (uint64_t)AMB_HEAP_OVERHEAD)

static void taker_rouse(struct amb_taker *taker)
{
    if (amb_list_is_empty(&taker->busy) && !amb_list_is_empty(&taker->waiting)) {
        amb_list_push_back(&taker->shard->takers.busy, &taker->busy);
    }
}

void amb_taker_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_take *take = AMB_CONTAINER_OF(mail, struct amb_take, mail);
    struct amb_session *session = amb_session_find(shard, take->to.session, take->to.generation);
    struct amb_subscription *sub =
        session == NULL ? NULL : amb_session_subscription(session, take->to.handle);
    if (sub == NULL || sub->id != take->to.sub || sub->taker == NULL || sub->taker->seat == NULL) {
        amb_take_go_home(shard, take, AMB_TAKE_UNSENT);
        return;
    }
    amb_list_push_back(&sub->taker->waiting, &take->node);
    amb_seat_charge(sub->taker);
    taker_rouse(sub->taker);
}

/* Its client may have it in work yet. */
static void taker_call_back(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end)
{
    amb_former_note(taker, take);
    amb_seat_end(taker, take, end);
}

/* *budget: so many may expire this turn; the others in the next. */
static void taker_expire(struct amb_taker *taker, unsigned *budget, int64_t *next_ns)
{
    while (!amb_list_is_empty(&taker->pending)) {
        struct amb_take *take = AMB_CONTAINER_OF(taker->pending.next, struct amb_take, node);
        int64_t due_ns = take->due_ns > taker->prolonged_ns ? take->due_ns : taker->prolonged_ns;
        if (due_ns > taker->shard->now_ns || *budget == 0) {
            *next_ns = due_ns < *next_ns ? due_ns : *next_ns;
            return;
        }
        --*budget;
        taker->expired += take->left;
        taker_call_back(taker, take, AMB_TAKE_EXPIRED);
    }
}

int64_t amb_takers_due(struct amb_shard *shard)
{
    const struct amb_shard_takers *takers = &shard->takers;
    return takers->due_ns < takers->retry_ns ? takers->due_ns : takers->retry_ns;
}

unsigned amb_takers_run(struct amb_shard *shard)
{
    unsigned done = 0;
    if (shard->now_ns >= shard->takers.due_ns) {
        int64_t next_ns = INT64_MAX;
        unsigned budget = EXPIRE_BUDGET;
        AMB_LIST_FOR_EACH (node, &shard->takers.all) {
            taker_expire(AMB_CONTAINER_OF(node, struct amb_taker, node), &budget, &next_ns);
        }
        shard->takers.due_ns = next_ns;
    }
    if (shard->now_ns >= shard->takers.retry_ns) {
        shard->takers.retry_ns = INT64_MAX;
        done += amb_formers_run(shard, &shard->takers.retry_ns);
    }
    AMB_LIST_FOR_EACH_SAFE (node, &shard->takers.busy) {
        struct amb_taker *taker = AMB_CONTAINER_OF(node, struct amb_taker, busy);
        AMB_LIST_FOR_EACH_SAFE (take_node, &taker->waiting) {
            if (!amb_taker_send(taker, AMB_CONTAINER_OF(take_node, struct amb_take, node))) {
                break;
            }
            done++;
        }
        if (amb_list_is_empty(&taker->waiting)) {
            amb_list_remove(&taker->busy);
        }
    }
    return done;
}

/* In one go: a member has at most as many as its credit allows. */
void amb_taker_recall(struct amb_taker *taker)
{
    if (taker->ack == AMB_ACK_NONE || taker->is_leaving) {
        return;
    }
    AMB_LIST_FOR_EACH_SAFE (node, &taker->pending) {
        taker_call_back(taker, AMB_CONTAINER_OF(node, struct amb_take, node), AMB_TAKE_LEFT);
    }
}

uint64_t amb_taker_pending(const struct amb_taker *taker)
{
    uint64_t msgs = 0;
    AMB_LIST_FOR_EACH (node, &taker->pending) {
        msgs += AMB_CONTAINER_OF(node, struct amb_take, node)->left;
    }
    return msgs;
}

void amb_taker_stop(struct amb_taker *taker)
{
    struct amb_seat *seat = taker->seat;
    if (seat == NULL) {
        return;
    }
    taker->seat = NULL;
    taker->sub->session->takers--;
    amb_list_remove(&taker->busy);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&taker->waiting)) != NULL) {
        amb_seat_go_home(taker, AMB_CONTAINER_OF(node, struct amb_take, node), AMB_TAKE_UNSENT);
    }
    amb_take_post(taker->shard, seat->home, &seat->leave, seat->on_leave);
}

/* Messages that it has and did not settle go home too, the oldest first. They do so behind its late
 * ACKs: else messages that such an ACK settles would go out again. */
static void taker_detached(struct amb_subscription *sub)
{
    struct amb_taker *taker = sub->taker;
    amb_taker_stop(taker);
    amb_list_remove(&taker->node);
    if (taker->ack == AMB_ACK_NONE || taker->is_leaving) {
        return; /* Without acks they come no second time, and may be released yet. */
    }
    if (!amb_formers_leave(taker)) {
        taker->is_leaving = true;
        amb_seat_uncharge(taker, taker->known.count);
        return;
    }
    AMB_LIST_FOR_EACH_SAFE (node, &taker->pending) {
        amb_seat_end(taker, AMB_CONTAINER_OF(node, struct amb_take, node), AMB_TAKE_LEFT);
    }
}

static void taker_free(struct amb_taker *taker)
{
    amb_formers_fini(taker);
    amb_idmap_fini(&taker->told);
    amb_idmap_fini(&taker->known);
    free(taker);
}

bool amb_taker_leave_on(struct amb_taker *taker, unsigned *budget)
{
    AMB_LIST_FOR_EACH_SAFE (node, &taker->pending) {
        if (*budget == 0) {
            return false;
        }
        --*budget;
        struct amb_take *take = AMB_CONTAINER_OF(node, struct amb_take, node);
        amb_seat_forget(taker, take);
        amb_take_go_home(taker->shard, take, AMB_TAKE_LEFT);
    }
    if (taker->sub == NULL) {
        taker_free(taker);
    }
    return true;
}

static void taker_released(struct amb_subscription *sub, uint64_t number,
                           const struct amb_delivery *delivery)
{
    struct amb_taker *taker = sub->taker;
    if (taker->ack != AMB_ACK_NONE) {
        if (taker->formers.known.count > 0) {
            amb_former_released(taker, number);
        }
        return;
    }
    amb_seat_back(taker, delivery->msgs, delivery->bytes);
    struct amb_idmap_node *node =
        taker->known.count == 0 ? NULL : amb_idmap_find(&taker->known, number);
    if (node != NULL) {
        struct amb_take *take = AMB_CONTAINER_OF(node, struct amb_take, known);
        take->acked = take->left;
        amb_seat_forget(taker, take);
        amb_seat_go_home(taker, take, AMB_TAKE_SETTLED);
    }
}

static void taker_destroyed(struct amb_subscription *sub)
{
    struct amb_taker *taker = sub->taker;
    amb_assert(taker->seat == NULL);
    struct amb_idmap_node *node;
    struct amb_list_node *list_node;
    if (!taker->is_leaving) {
        AMB_LIST_FOR_EACH_SAFE (pending, &taker->pending) {
            amb_seat_end(taker, AMB_CONTAINER_OF(pending, struct amb_take, node), AMB_TAKE_SETTLED);
        }
    }
    while ((node = amb_idmap_any(&taker->told)) != NULL) {
        amb_idmap_remove(&taker->told, node);
        amb_session_name_drop(&sub->session->names,
                              AMB_CONTAINER_OF(node, struct amb_session_name, node));
    }
    while ((list_node = amb_list_pop_front(&taker->waiters)) != NULL) {
        struct amb_taker_waiter *waiter =
            AMB_CONTAINER_OF(list_node, struct amb_taker_waiter, node);
        waiter->done(waiter, NULL); /* The session was the first to end. */
    }
    amb_heap_give(&sub->session->heap, TAKER_HEAP);
    if (amb_list_is_empty(&taker->formers.settling)) {
        taker_free(taker);
    } else {
        taker->sub = NULL;
    }
}

static const struct amb_subscription_hooks taker_hooks = {
    .detached = taker_detached,
    .released = taker_released,
    .destroyed = taker_destroyed,
};

enum amb_status amb_taker_create(struct amb_subscription *sub, enum amb_ack ack,
                                 int64_t ack_wait_ns, struct amb_seat *seat)
{
    if (!amb_heap_charge(&sub->session->heap, TAKER_HEAP)) {
        return AMB_ELIMIT;
    }
    struct amb_taker *taker = calloc(1, sizeof(*taker));
    if (taker == NULL) {
        amb_heap_give(&sub->session->heap, TAKER_HEAP);
        return AMB_ENOMEM;
    }
    struct amb_shard *shard = sub->session->shard;
    taker->sub = sub;
    taker->shard = shard;
    taker->seat = seat;
    taker->ack = ack;
    taker->ack_wait_ns = ack_wait_ns;
    amb_list_init(&taker->waiting);
    amb_list_init(&taker->pending);
    amb_list_init(&taker->formers.list);
    amb_list_init(&taker->formers.released);
    amb_list_init(&taker->formers.settling);
    amb_list_init(&taker->busy);
    amb_list_init(&taker->waiters);
    amb_list_push_back(&shard->takers.all, &taker->node);
    sub->session->takers++;
    sub->taker = taker;
    sub->hooks = &taker_hooks;
    return AMB_OK;
}
