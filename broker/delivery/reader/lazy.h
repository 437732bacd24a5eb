/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy subscriptions: a delivery is a batch's records and properties, and its payloads are asked
 * for (FETCH) or not. Each subscription has a kind:
 *
 *   kind      keeps payloads           bounded by
 *   ON        while there is room      credit_bytes; of leased ones a quarter of their segment
 *   PIN       until the release        credit: they are charged
 *   HEADERS   never, for no request
 *
 * With ON the oldest payloads go stale first, and all of them where memory is short. The quarter is
 * there so that no publisher waits for slots that nobody may ever ask for. Members of queues are
 * served as with PIN, for a take keeps its payloads anyway.
 *
 * A FETCH is answered at once, from memory, with at most AMB_FETCH_MAX bytes, so an answer is a
 * frame among others. A client has at most AMB_LAZY_FETCHES_MAX of them in its link.
 *
 * A client that maps may ask for a whole payload in place; its delivery then is as one that came
 * so.
 *
 * A user's quota may have no room for what a reader pins. The user's other sessions give room back
 * and wake nobody, so the worker looks for it again and again. A look wakes readers only where the
 * quota has room for one of them.
 *
 * Threads: the shard's worker. Memory: a kept payload is a reference on its entry; never allocates.
 */
#pragma once

#include "broker/delivery/reader/piece.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/shard/entry.h"
#include "wire/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_LAZY_PAUSE_NS (5 * AMB_NS_PER_MS) /* between two looks for room in a user's quota */
#define AMB_LAZY_RETRY_TURN 256u              /* sessions whose quota is looked at in one turn */
#define AMB_LAZY_FETCHES_MAX 64u              /* answers that wait in a session's link */

struct amb_frame;
struct amb_shard;

/* The most that a delivery of that entry, or of a part of it, is charged: credit is asked for that
 * much. */
static inline uint64_t amb_lazy_bytes(const struct amb_subscription *sub,
                                      const struct amb_entry *entry)
{
    bool is_light = sub->options.lazy == AMB_LAZY_ON || sub->options.lazy == AMB_LAZY_HEADERS;
    return is_light && sub->taker == NULL ? entry->meta_len : amb_entry_bytes(entry);
}

/* Messages first .. first+count-1 as a LAZY frame gives them: as little of the batch as makes a
 * body. */
struct amb_piece amb_lazy_piece(const struct amb_entry *entry, uint32_t first, uint32_t count);
/* May another payload be pinned for it? */
bool amb_lazy_has_room(const struct amb_subscription *sub, const struct amb_entry *entry);
/* There is none. If it is the user's quota that lacks room, the session's readers are woken when it
 * has some. */
void amb_lazy_lack(struct amb_subscription *sub, const struct amb_entry *entry);
/* Once a turn, where there are such sessions: some of their quotas are looked at. */
void amb_lazy_retry(struct amb_shard *shard);
/* The time at which that is next to be done; INT64_MAX: no session lacks room. */
int64_t amb_lazy_due(struct amb_shard *shard);
/* amb_subscription_deliver for a lazy one: notes the delivery, and keeps what its kind keeps. */
AMB_MUST_CHECK enum amb_status amb_lazy_deliver(struct amb_subscription *sub,
                                                struct amb_entry *entry, uint32_t first,
                                                uint32_t count, uint64_t bytes);
/* A FETCH. EPROTO: it asks for what was not given, or past its end. */
AMB_MUST_CHECK enum amb_status amb_lazy_fetch(struct amb_session *session,
                                              const struct amb_frame *frame);
