/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/subscription.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/memory/segment.h"
#include "broker/session/quarantine.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/topic/cursor.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"
#include "wire/codec/filter.h"

#include <limits.h>
#include <stdlib.h>

#define DELIVERIES_FIRST UINT64_C(32)
#define TRIM_NS (100 * AMB_NS_PER_MS) /* between two looks for tables that are not used */
/* Its first table among that, which none must wait for. */
#define SUBSCRIPTION_HEAP                                                                          \
    (sizeof(struct amb_subscription) + sizeof(struct amb_pace) +                                   \
     DELIVERIES_FIRST * sizeof(struct amb_delivery) + 3 * AMB_HEAP_OVERHEAD)

/* Bytes of its table beyond the first one, which is charged with the subscription. */
static uint64_t deliveries_grown(const struct amb_subscription *sub)
{
    return sub->deliveries == NULL ? 0
                                   : (sub->mask + 1 - DELIVERIES_FIRST) * sizeof(*sub->deliveries);
}

/* Tables of which nothing is out are as small as they began, for others of the session. */
static void deliveries_trim(struct amb_session *session)
{
    if (session->shard->now_ns - session->trimmed_ns < TRIM_NS) {
        return;
    }
    session->trimmed_ns = session->shard->now_ns;
    AMB_LIST_FOR_EACH (node, &session->subscription_list) {
        struct amb_subscription *sub = AMB_CONTAINER_OF(node, struct amb_subscription, node);
        if (deliveries_grown(sub) > 0 && sub->released == sub->delivered) {
            amb_heap_give(&session->heap, deliveries_grown(sub));
            free(sub->deliveries);
            sub->deliveries = NULL;
            sub->mask = 0;
        }
    }
}

static bool deliveries_charge(struct amb_session *session, uint64_t bytes)
{
    if (!amb_heap_has_room(&session->heap, bytes)) {
        deliveries_trim(session);
    }
    return amb_heap_charge(&session->heap, bytes);
}

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
    amb_assert(handle < AMB_HANDLES_MAX && session->subscriptions[handle] == NULL);
    const struct amb_past *past = amb_session_past(session, handle);
    struct amb_subscription *sub = past == NULL ? NULL : calloc(1, sizeof(*sub));
    if (sub == NULL) {
        return AMB_ENOMEM;
    }
    if (!deliveries_charge(session, SUBSCRIPTION_HEAP)) {
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
    session->subscriptions[handle] = sub;
    *out = sub;
    return AMB_OK;
}

/* Its payload is not one of those any more that may be dropped. */
static void delivery_unkeep(struct amb_subscription *sub, const struct amb_delivery *delivery)
{
    if (__builtin_expect(delivery->lazy == AMB_LAZY_ON, 0)) {
        if (AMB_FAULT(KEPT_MISCOUNTED) && sub->kept_from % 8 == 0 && sub->kept_from != 0) {
            return;
        }
        sub->kept_bytes -= amb_entry_charge(delivery->entry);
        sub->session->shard->lazy.kept -= amb_entry_charge(delivery->entry);
    }
}

/* The client holds one more entry in place, or one less. */
static void session_count_mapped(struct amb_session *session, const struct amb_entry *entry,
                                 bool is_more)
{
    uint64_t bytes = is_more ? amb_entry_charge(entry) : -amb_entry_charge(entry);
    session->mapped_bytes += bytes;
    session->mapped_host_bytes += entry->segment->gpu == NULL ? bytes : 0;
}

/* An in-place delivery is no longer held by the client, or a lazy one's payload not kept for it. */
static void delivery_unref(struct amb_subscription *sub, struct amb_delivery *delivery)
{
    if (delivery->entry != NULL) {
        delivery_unkeep(sub, delivery);
        session_count_mapped(sub->session, delivery->entry, false);
        amb_entry_unref(delivery->entry, sub->session->shard);
        delivery->entry = NULL;
    }
}

/* Its publisher is to hear of it. */
static void delivery_tally(struct amb_subscription *sub, struct amb_delivery *delivery,
                           uint32_t msgs)
{
    struct amb_tally *tally = delivery->tally;
    if (__builtin_expect(tally != NULL, 0)) {
        delivery->tally = NULL;
        amb_assert(sub->session->tallies > 0);
        sub->session->tallies--;
        amb_heap_give(&sub->session->heap, sizeof(*tally));
        amb_tally_settle(sub->session->shard, tally, msgs);
    }
}

static void delivery_quarantine(struct amb_subscription *sub, struct amb_delivery *delivery)
{
    if (delivery->entry != NULL) {
        amb_quarantine_take(sub->session, delivery->entry);
        delivery->entry = NULL;
    }
}

bool amb_subscription_drop_kept(struct amb_subscription *subscription)
{
    struct amb_subscription *sub = subscription;
    uint64_t number = sub->kept_from > sub->released ? sub->kept_from : sub->released + 1;
    for (; sub->kept_bytes != 0 && number <= sub->delivered; number++) {
        struct amb_delivery *delivery = &sub->deliveries[number & sub->mask];
        if (delivery->lazy == AMB_LAZY_ON && delivery->entry != NULL) {
            delivery_unref(sub, delivery);
            sub->kept_from = number + 1;
            return true;
        }
    }
    return false;
}

void amb_subscription_keep_mapped(struct amb_subscription *subscription,
                                  struct amb_delivery *delivery)
{
    amb_assert(delivery->entry != NULL && delivery->lazy != AMB_LAZY_OFF);
    delivery_unkeep(subscription, delivery);
    delivery->lazy = AMB_DELIVERY_MAPPED;
}

bool amb_subscriptions_drop_kept(struct amb_shard *shard)
{
    if (shard->lazy.kept == 0) {
        return false;
    }
    AMB_LIST_FOR_EACH (at, &shard->sessions.live) {
        struct amb_session *session = AMB_CONTAINER_OF(at, struct amb_session, live);
        AMB_LIST_FOR_EACH (node, &session->subscription_list) {
            while (
                amb_subscription_drop_kept(AMB_CONTAINER_OF(node, struct amb_subscription, node))) {
            }
        }
    }
    return true;
}

void amb_subscription_detach(struct amb_subscription *subscription)
{
    struct amb_shard *shard = subscription->session->shard;
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

static void subscription_end_if_empty(struct amb_subscription *sub)
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
    subscription_end_if_empty(subscription);
}

bool amb_subscription_give_up(struct amb_subscription *subscription, bool keep_held,
                              unsigned *budget)
{
    struct amb_subscription *sub = subscription;
    for (; sub->released < sub->delivered; --*budget) {
        if (*budget == 0) {
            return false;
        }
        struct amb_delivery *delivery = &sub->deliveries[++sub->released & sub->mask];
        delivery_tally(sub, delivery, 0);
        /* A lazy one's payload is read by nobody but us. */
        bool is_mapped = delivery->lazy == AMB_LAZY_OFF || delivery->lazy == AMB_DELIVERY_MAPPED;
        if (keep_held && is_mapped && !AMB_FAULT(QUARANTINE_SKIPPED)) {
            delivery_quarantine(sub, delivery);
        } else {
            delivery_unref(sub, delivery);
        }
    }
    return true;
}

void amb_subscription_destroy(struct amb_subscription **subscription, bool keep_held)
{
    struct amb_subscription *sub = *subscription;
    if (sub == NULL) {
        return;
    }
    *subscription = NULL;
    amb_subscription_detach(sub);
    unsigned all = UINT_MAX;
    (void)amb_subscription_give_up(sub, keep_held, &all);
    amb_list_remove(&sub->node);
    sub->session->subscriptions[sub->handle] = NULL;
    amb_session_past(sub->session, sub->handle)->delivered = sub->delivered;
    if (sub->hooks != NULL) {
        sub->hooks->destroyed(sub);
    }
    void (*gone)(void *arg) = sub->gone;
    void *gone_arg = sub->gone_arg;
    amb_heap_give(&sub->session->heap,
                  SUBSCRIPTION_HEAP + deliveries_grown(sub) + sub->filter_heap);
    amb_pace_destroy(&sub->pace);
    free(sub->deliveries);
    sub->deliveries = NULL;
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

bool amb_subscription_has_credit(const struct amb_subscription *subscription, uint32_t msgs,
                                 uint64_t bytes)
{
    if (subscription->msgs_out == 0) {
        return true;
    }
    bool is_second = subscription->deliveries_out == 1;
    uint64_t most = subscription->options.credit_msgs + AMB_FAULT(CREDIT_OFF_BY_ONE);
    bool is_beside = is_second && most > 1 && subscription->msgs_out < AMB_SUBSCRIPTION_NO_CREDIT;
    if (subscription->msgs_out + msgs > most && !is_beside) {
        return false;
    }
    return (is_second && subscription->session->may_map && !subscription->options.copy) ||
           subscription->bytes_out + bytes <= subscription->options.credit_bytes;
}

static enum amb_status deliveries_grow(struct amb_subscription *sub)
{
    uint64_t cells = sub->deliveries == NULL ? DELIVERIES_FIRST : (sub->mask + 1) * 2;
    if (cells > AMB_CREDIT_MSGS_MAX * 2) {
        return AMB_ELIMIT;
    }
    /* Past the limit its credit is what there is room for. */
    uint64_t more = sub->deliveries == NULL ? 0 : cells / 2 * sizeof(*sub->deliveries);
    if (!deliveries_charge(sub->session, more)) {
        return AMB_ELIMIT;
    }
    struct amb_delivery *grown = calloc(cells, sizeof(*grown));
    if (grown == NULL) {
        amb_heap_give(&sub->session->heap, more);
        return AMB_ENOMEM;
    }
    for (uint64_t number = sub->released + 1; number <= sub->delivered; number++) {
        grown[number & (cells - 1)] = sub->deliveries[number & sub->mask];
    }
    free(sub->deliveries);
    sub->deliveries = grown;
    sub->mask = cells - 1;
    return AMB_OK;
}

enum amb_status amb_subscription_deliver(struct amb_subscription *subscription, uint32_t msgs,
                                         uint64_t bytes, struct amb_entry *entry)
{
    if (subscription->deliveries == NULL ||
        subscription->delivered - subscription->released > subscription->mask) {
        enum amb_status status = deliveries_grow(subscription);
        if (status != AMB_OK) {
            return status;
        }
    }
    uint64_t number = ++subscription->delivered;
    subscription->deliveries[number & subscription->mask] =
        (struct amb_delivery){.entry = entry, .bytes = bytes, .msgs = msgs};
    if (entry != NULL) {
        amb_entry_ref(entry);
        session_count_mapped(subscription->session, entry, true);
    }
    subscription->deliveries_out++;
    subscription->msgs_out += msgs;
    subscription->bytes_out += bytes;
    subscription->msgs += msgs;
    subscription->bytes += bytes;
    return AMB_OK;
}

static void delivery_release(struct amb_subscription *sub, uint64_t number)
{
    struct amb_delivery *delivery = &sub->deliveries[number & sub->mask];
    if (delivery->is_released) {
        return;
    }
    delivery->is_released = true;
    sub->deliveries_out--;
    sub->msgs_out -= AMB_FAULT(RELEASE_TWICE) ? 2 * delivery->msgs : delivery->msgs;
    sub->bytes_out -= delivery->bytes;
    if (sub->hooks != NULL) {
        sub->hooks->released(sub, number, delivery);
    }
    delivery_tally(sub, delivery, delivery->msgs);
    delivery_unref(sub, delivery);
    delivery->bytes = 0;
}

/* Something came back: takes `released` past what had come back out of order. */
static void subscription_released(struct amb_subscription *sub)
{
    while (sub->released < sub->delivered &&
           sub->deliveries[(sub->released + 1) & sub->mask].is_released) {
        sub->released++;
    }
    amb_session_unstall(sub->session);
    subscription_end_if_empty(sub);
}

enum amb_status amb_subscription_release(struct amb_subscription *subscription, uint64_t number)
{
    if (number > subscription->delivered) {
        return amb_session_broken(subscription->session,
                                  "the client gives back what it was not given");
    }
    if (subscription->told < number) {
        subscription->told = number;
    }
    while (subscription->released < number) {
        delivery_release(subscription, ++subscription->released);
    }
    subscription_released(subscription);
    return AMB_OK;
}

enum amb_status amb_subscription_release_range(struct amb_subscription *subscription,
                                               uint64_t number, uint32_t count)
{
    if (number == 0 || count == 0 || number > subscription->delivered ||
        count > subscription->delivered - number + 1) {
        return amb_session_broken(subscription->session,
                                  "the client gives back what it was not given");
    }
    /* From what is out: a range over all that ever was must not cost more than what it gives back.
     * Nor must it when it is said again and again while the oldest stays out. Each that is back
     * says up to where all are, when this range is. */
    uint64_t end = number + count;
    uint64_t i = number > subscription->released ? number : subscription->released + 1;
    while (i < end) {
        struct amb_delivery *delivery = &subscription->deliveries[i & subscription->mask];
        uint64_t next = i + 1;
        if (!delivery->is_released) {
            delivery_release(subscription, i);
            delivery->bytes = end;
        } else {
            next = delivery->bytes > next ? delivery->bytes : next;
            delivery->bytes = delivery->bytes > end ? delivery->bytes : end;
        }
        subscription->looked++;
        i = next;
    }
    subscription_released(subscription);
    return AMB_OK;
}
