/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/subscription.h"

#include "broker/config/config.h"
#include "broker/count/counters_slots.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"
#include "wire/codec/filter.h"

#include <limits.h>
#include <stdlib.h>

/* Its first table among that, which none must wait for. */
#define SUBSCRIPTION_HEAP                                                                          \
    (sizeof(struct amb_subscription) + sizeof(struct amb_pace) +                                   \
     AMB_DELIVERIES_FIRST * sizeof(struct amb_delivery) + 3 * AMB_HEAP_OVERHEAD)

/* The last cursor of one that goes has gone. */
static void subscription_swept(struct amb_sweep *sweep)
{
    struct amb_subscription *sub = AMB_CONTAINER_OF(sweep, struct amb_subscription, sweep);
    sub->msgs_out -= AMB_SUBSCRIPTION_NO_CREDIT;
    if (sub->is_gone) {
        amb_filter_free(&sub->filter);
        free(sub);
    }
}

/* The shard's session that is nobody's: not up, so nothing is delivered to it. NULL: no memory. */
static struct amb_session *session_nobody(struct amb_shard *shard)
{
    if (shard->sweep.nobody == NULL) {
        shard->sweep.nobody = calloc(1, sizeof(*shard->sweep.nobody));
        if (shard->sweep.nobody != NULL) {
            shard->sweep.nobody->shard = shard;
            shard->sweep.nobody->state = AMB_SESSION_CLOSING;
            amb_list_init(&shard->sweep.nobody->stalled);
            amb_sifter_init(&shard->sweep.nobody->sifter);
        }
    }
    return shard->sweep.nobody;
}

enum amb_status amb_subscription_create(struct amb_session *session, uint32_t handle, uint64_t id,
                                        const struct amb_subscription_options *options,
                                        struct amb_subscription **out)
{
    amb_assert(handle < AMB_HANDLES_MAX && amb_session_subscription(session, handle) == NULL);
    const struct amb_past *past = amb_session_past(session, handle);
    struct amb_subscription *sub = past == NULL ? NULL : calloc(1, sizeof(*sub));
    if (sub == NULL) {
        return AMB_ENOMEM;
    }
    if (!amb_deliveries_charge(session, SUBSCRIPTION_HEAP)) {
        free(sub);
        return AMB_ELIMIT;
    }
    sub->delivered = sub->released = sub->told = past->delivered;
    sub->session = session;
    sub->handle = handle;
    sub->id = id;
    sub->options = *options;
    if (sub->options.credit_msgs == 0) {
        sub->options.credit_msgs = AMB_CREDIT_MSGS_DEFAULT;
    } else if (sub->options.credit_msgs > AMB_CREDIT_MSGS_MAX) {
        sub->options.credit_msgs = AMB_CREDIT_MSGS_MAX;
    }
    if (sub->options.credit_bytes == 0) {
        sub->options.credit_bytes = AMB_CREDIT_BYTES_DEFAULT;
    } else if (sub->options.credit_bytes > AMB_CREDIT_BYTES_MAX) {
        sub->options.credit_bytes = AMB_CREDIT_BYTES_MAX; /* A queue adds up its members'. */
    }
    amb_list_init(&sub->cursors);
    amb_sweep_init(&sub->sweep, &sub->cursors, subscription_swept);
    if (amb_pace_create(session->shard, &sub->cursors, &options->pace, &sub->pace) != AMB_OK) {
        amb_heap_give(&session->heap, SUBSCRIPTION_HEAP);
        free(sub);
        return AMB_ENOMEM;
    }
    amb_list_push_back(&session->subscription_list, &sub->node);
    amb_session_set_subscription(session, handle, sub);
    *out = sub;
    return AMB_OK;
}

void amb_subscription_detach(struct amb_subscription *subscription)
{
    struct amb_shard *shard = subscription->session->shard;
    amb_losses_look(subscription);
    bool is_detached = amb_sweep_first(shard, &subscription->cursors);
    if (!is_detached && session_nobody(shard) == NULL) {
        is_detached = amb_sweep_some(&subscription->cursors, UINT_MAX);
    }
    if (!is_detached && !subscription->is_sweeping) {
        subscription->is_sweeping = true;
        subscription->msgs_out += AMB_SUBSCRIPTION_NO_CREDIT;
        amb_sweep_begin(shard, &subscription->sweep);
    }
    if (subscription->hooks != NULL) {
        subscription->hooks->detached(subscription);
    }
}

void amb_subscription_end_if_empty(struct amb_subscription *sub)
{
    if (sub->has_ended && sub->told == sub->delivered) {
        amb_subscription_destroy(&sub, false);
    }
}

void amb_subscription_end(struct amb_subscription *subscription, void (*gone)(void *arg), void *arg)
{
    amb_assert(!subscription->has_ended);
    subscription->has_ended = true;
    subscription->gone = gone;
    subscription->gone_arg = arg;
    amb_subscription_detach(subscription);
    amb_subscription_end_if_empty(subscription);
}

void amb_subscription_destroy(struct amb_subscription **subscription, bool keep_held)
{
    struct amb_subscription *sub = *subscription;
    if (sub == NULL) {
        return;
    }
    *subscription = NULL;
    amb_subscription_detach(sub);
    amb_losses_end(sub);
    unsigned all = UINT_MAX;
    (void)amb_subscription_give_up(sub, keep_held, &all);
    amb_list_remove(&sub->node);
    amb_session_set_subscription(sub->session, sub->handle, NULL);
    amb_session_past(sub->session, sub->handle)->delivered = sub->delivered;
    amb_counters_give_numbers(sub->session->shard->counters, &sub->counters_slot);
    if (sub->hooks != NULL) {
        sub->hooks->destroyed(sub);
    }
    void (*gone)(void *arg) = sub->gone;
    void *gone_arg = sub->gone_arg;
    amb_heap_give(&sub->session->heap, SUBSCRIPTION_HEAP + amb_deliveries_grown(sub) +
                                           sub->filter_heap + sub->label_heap);
    amb_pace_destroy(&sub->pace);
    free(sub->deliveries);
    free(sub->label);
    sub->deliveries = NULL;
    sub->label = NULL;
    if (amb_list_is_empty(&sub->cursors)) {
        amb_list_remove(&sub->sweep.node);
        amb_filter_free(&sub->filter);
        free(sub);
    } else {
        sub->is_gone = true;
        sub->session = sub->session->shard->sweep.nobody;
    }
    if (gone != NULL) {
        gone(gone_arg);
    }
}

enum amb_status amb_subscription_attach(struct amb_subscription *subscription,
                                        struct amb_topic *topic, const struct amb_begun *begun)
{
    struct amb_cursor *cursor = calloc(1, sizeof(*cursor));
    if (cursor == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_slow slow = subscription->options.slow;
    int64_t block_limit_ns = subscription->options.slow_block_ns;
    if (slow == AMB_SLOW_DEFAULT) {
        slow = topic->rule->slow;
        block_limit_ns = topic->rule->slow_block_ns;
    }
    amb_cursor_attach(cursor, topic, subscription, slow, block_limit_ns, begun);
    cursor->pick.filter = subscription->filter;
    cursor->pick.sifter = &subscription->session->sifter;
    cursor->is_picky |= subscription->filter != NULL || subscription->pace != NULL ||
                        subscription->options.lazy != AMB_LAZY_OFF;
    amb_list_push_back(&subscription->cursors, &cursor->of_sub);
    if (!subscription->options.pace
             .is_original) { /* Each message has its time, also a lower one. */
        amb_priority_join(cursor);
    }
    return AMB_OK;
}
