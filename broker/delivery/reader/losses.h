/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The losses of a subscription, for the records of loss_book.h. They are brought up to date by
 * slow.h, ten times a second while anything moves, and when the subscription ends. So the way of a
 * message pays nothing for them.
 *
 * Threads: the shard's worker. Memory: the counters'.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

#define AMB_LOSS_REASONS 5u     /* slow, trimmed, expired, purged; mixed: of queues */
#define AMB_LOSSES_CURSORS 256u /* looked at when it ends */

struct amb_cursor;
struct amb_subscription;

/* Messages that it does not get, and that its next deliveries will count: by reason. */
struct amb_losses_gap {
    uint64_t by[AMB_LOSS_PURGED + 1];
};

/* Adds those of one cursor; returns how many they are. */
uint64_t amb_losses_gap_add(struct amb_losses_gap *gap, const struct amb_cursor *cursor);
/* Brings its records up to date. */
void amb_losses_note(struct amb_subscription *sub, const struct amb_losses_gap *gap);
/* Its cursors are about to go: the same, after a look at some of them. */
void amb_losses_look(struct amb_subscription *sub);
/* It goes: its records stay without it. */
void amb_losses_end(struct amb_subscription *sub);
