/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/deliveries.h"

#include "broker/base/fault.h"
#include "broker/delivery/reader/traced_delivery.h"
#include "broker/memory/segment.h"
#include "broker/session/quarantine.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define TRIM_NS (100 * AMB_NS_PER_MS) /* between two looks for tables that are not used */

uint64_t amb_deliveries_grown(const struct amb_subscription *sub)
{
    return sub->deliveries == NULL
               ? 0
               : (sub->mask + 1 - AMB_DELIVERIES_FIRST) * sizeof(*sub->deliveries);
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
        if (amb_deliveries_grown(sub) > 0 && sub->released == sub->delivered) {
            amb_heap_give(&session->heap, amb_deliveries_grown(sub));
            free(sub->deliveries);
            sub->deliveries = NULL;
            sub->mask = 0;
        }
    }
}

bool amb_deliveries_charge(struct amb_session *session, uint64_t bytes)
{
    if (!amb_heap_has_room(&session->heap, bytes)) {
        deliveries_trim(session);
    }
    return amb_heap_charge(&session->heap, bytes);
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
static void count_mapped(struct amb_subscription *sub, const struct amb_entry *entry, bool is_more)
{
    struct amb_session *session = sub->session;
    uint64_t bytes = is_more ? amb_entry_charge(entry) : -amb_entry_charge(entry);
    session->mapped_bytes += bytes;
    if (__builtin_expect(session->purse != NULL, 0)) {
        amb_purse_map(session->purse, bytes);
    }
    if (entry->is_leased) {
        uint32_t parts = entry->count * entry->segment->slot_parts;
        session->mapped_parts += is_more ? parts : -parts;
    }
    if (entry->segment->gpu == NULL) {
        session->mapped_host_bytes += bytes;
        sub->held_bytes += bytes;
    } else {
        sub->held_gpu_bytes += bytes;
    }
}

/* An in-place delivery is no longer held by the client, or a lazy one's payload not kept for it. */
static void delivery_unref(struct amb_subscription *sub, struct amb_delivery *delivery)
{
    if (delivery->entry != NULL) {
        delivery_unkeep(sub, delivery);
        count_mapped(sub, delivery->entry, false);
        amb_entry_unref(delivery->entry, sub->session->shard);
        delivery->entry = NULL;
    }
}

/* Its publisher, or a trace, is to hear of it. */
static __attribute__((noinline)) void delivery_settle(struct amb_subscription *sub,
                                                      struct amb_delivery *delivery, uint32_t msgs)
{
    struct amb_tally *tally = delivery->tally;
    delivery->tally = NULL;
    amb_assert(sub->session->tallies > 0);
    sub->session->tallies--;
    amb_heap_give(&sub->session->heap, sizeof(*tally));
    if (tally->ticket != 0) {
        amb_traced_delivery_back(sub, tally->ticket, msgs);
    }
    amb_tally_settle(sub->session->shard, tally, msgs);
}

static inline void delivery_tally(struct amb_subscription *sub, struct amb_delivery *delivery,
                                  uint32_t msgs)
{
    if (__builtin_expect(delivery->tally != NULL, 0)) {
        delivery_settle(sub, delivery, msgs);
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
    uint64_t cells = sub->deliveries == NULL ? AMB_DELIVERIES_FIRST : (sub->mask + 1) * 2;
    if (cells > AMB_CREDIT_MSGS_MAX * 2) {
        return AMB_ELIMIT;
    }
    /* Past the limit its credit is what there is room for. */
    uint64_t more = sub->deliveries == NULL ? 0 : cells / 2 * sizeof(*sub->deliveries);
    if (!amb_deliveries_charge(sub->session, more)) {
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
        count_mapped(subscription, entry, true);
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
    amb_subscription_end_if_empty(sub);
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

bool amb_delivery_is_released(const struct amb_subscription *subscription, uint64_t number)
{
    return number <= subscription->released ||
           subscription->deliveries[number & subscription->mask].is_released;
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
