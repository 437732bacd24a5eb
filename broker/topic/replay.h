/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription on another worker that begins in history. The shadow that its worker may have
 * already stands at the end. So it gets one of its own for as long as it
 * reads. Home lends it entries from where it begins, as fast as it takes them.
 *
 *   home                                   the subscriber's worker
 *   amb_replay_begin ── order ───────────► cursor in the private shadow
 *   lends (lend.h) ──────────────────────►
 *                    ◄──────── consumed ── what it has passed
 *   amb_replay_end ──────────────────────► shadow emptied
 *   freed            ◄────────────────────
 *
 * It holds publishers back, if its policy is block, from when it is near the end.
 *
 * Threads: home, but for the shadow. Memory: one allocation and the shadow's; at most one for each
 * subscription and topic.
 */
#pragma once

#include "broker/topic/topic.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_begun;

/* shared: that worker's own shadow, whose name is used. Returns the private one; NULL: no memory.
 * The topic is marked: its lends come after the mail with which the cursor is attached. */
struct amb_topic *amb_replay_begin(struct amb_topic *topic, unsigned borrower, uint64_t sub,
                                   bool holds, bool spills, struct amb_topic *shared,
                                   const struct amb_begun *begun);
/* The entries that are lent to the subscription. NULL: it has none of its own here. */
struct amb_lend *amb_replay_lend(const struct amb_topic *topic, uint64_t sub);
/* The subscription is over. False: it has none here. */
bool amb_replay_end(struct amb_topic *topic, uint64_t sub);
/* The topic is about to be forgotten. */
void amb_replay_end_all(struct amb_topic *topic);
