/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a turn: clients are told. Each link is flushed.
 *
 * On a socket a flush is a system call, and wakes the client. So frames leave first, because
 * somebody waits for a message. Counters alone follow them. A frame may have followed each of the
 * last receipts within AMB_TELL_SOON_NS. Then the next ones wait for such a frame, so long at most,
 * or the millisecond that a sleep in epoll takes. So requests with their replies take half as many
 * calls. One wait in vain ends that. So of flushes that wait for a receipt, beside a subscription
 * that has nothing to do with them, one of five is late at most. Receipts of a steady flow wait for
 * each other (wire/base/rhythm.h). Counters of a window are not kept back.
 *
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#include "wire/base/clock.h"

#include <stdint.h>

#define AMB_TELL_SOON_NS (500 * AMB_NS_PER_US)
#define AMB_TELL_REPLIES_MANY 4u /* in a row: a frame is likely to follow the next receipts */

struct amb_shard;

void amb_tell_all(struct amb_shard *shard);
/* By shard->now_ns: when receipts that are kept back leave on their own; INT64_MAX: there are
 * none. */
int64_t amb_tell_due(struct amb_shard *shard);
