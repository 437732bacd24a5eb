/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deliveries of a subscription that are out: credit, their table, and the ways in which they
 * come back.
 *
 * Deliveries have numbers 1, 2, 3, ..., counted by handle: those of a subscription go on where its
 * predecessor's ended. A client gives them back by number only, and this table says the meaning of
 * a number. So a client can name nothing that it was not given. Nor can it give back anew a
 * delivery that was another subscription's.
 *
 * Threads: the shard's worker. Memory: the table doubles to span all from the oldest delivery that
 * is out to the newest. It has at most 2 * AMB_CREDIT_MSGS_MAX cells, and the session's heap bounds
 * it.
 */
#pragma once

#include "broker/delivery/reader/subscription.h"

#define AMB_DELIVERIES_FIRST UINT64_C(32) /* cells of the first table */

/* A delivery always passes when nothing is outstanding. Else its messages and its bytes must fit
 * the credit. For a second one, beside a single one that is out, there are two exceptions:
 * - Its messages do not count where the credit is more than one message. A program that keeps one
 *   message and waits for the next knows nothing of batches.
 * - Its bytes do not count where the client maps, as it takes no memory of the client's. Else
 *   messages of more than half the credit would each wait for the release of the one before. */
bool amb_subscription_has_credit(const struct amb_subscription *subscription, uint32_t msgs,
                                 uint64_t bytes);
/* Notes a delivery; its number is then subscription->delivered. entry: in place, gets a reference;
 * NULL: by copy. ENOMEM, ELIMIT. */
AMB_MUST_CHECK enum amb_status amb_subscription_deliver(struct amb_subscription *subscription,
                                                        uint32_t msgs, uint64_t bytes,
                                                        struct amb_entry *entry);
/* Gives back 1..number. EPROTO: more than was delivered. */
AMB_MUST_CHECK enum amb_status amb_subscription_release(struct amb_subscription *subscription,
                                                        uint64_t number);
/* Gives back number..number+count-1; those that are back already are ignored. EPROTO. */
AMB_MUST_CHECK enum amb_status amb_subscription_release_range(struct amb_subscription *subscription,
                                                              uint64_t number, uint32_t count);

/* Has the client released that delivery, which it was given? */
bool amb_delivery_is_released(const struct amb_subscription *subscription, uint64_t number);

/* Its session closes: gives up what is out, at most `budget` deliveries, and counts that down.
 * True: that was all. Deliveries held in place go to the quarantine if keep_held. */
bool amb_subscription_give_up(struct amb_subscription *subscription, bool keep_held,
                              unsigned *budget);

/* Lazy: the oldest payload that is kept without being pinned goes stale. False: there is none. */
bool amb_subscription_drop_kept(struct amb_subscription *subscription);
/* The client will read it in place: it stays until the release, or the process's end. */
void amb_subscription_keep_mapped(struct amb_subscription *subscription,
                                  struct amb_delivery *delivery);
/* Memory is short: all of them, of all subscriptions. True: there was something. */
bool amb_subscriptions_drop_kept(struct amb_shard *shard);

/* Charges the heap of the session, where other tables may make room for it. False: it has none. */
bool amb_deliveries_charge(struct amb_session *session, uint64_t bytes);
/* Bytes of its table beyond the first one, which is charged with the subscription. */
uint64_t amb_deliveries_grown(const struct amb_subscription *sub);
