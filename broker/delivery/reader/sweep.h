/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeps: cursors leave in slices. A subscription or a queue that goes, the owner, may have a
 * hundred thousand of them. To detach all in one turn would keep other clients waiting. So the
 * first AMB_SWEEP_NOW leave at once, and the rest AMB_SWEEP_TURN a turn. The owner stays meanwhile,
 * without its name, and gets nothing. A cursor of it that is walked goes to the end of its log, and
 * so holds no publisher back.
 *
 * Threads: the shard's worker. Memory: embedded in the owner.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>

#define AMB_SWEEP_NOW 256u
#define AMB_SWEEP_TURN 1024u
#define AMB_SWEEP_FEW 4u /* leave at once where a turn has had AMB_SWEEP_TURN */

struct amb_shard;

struct amb_sweep {
    struct amb_list_node node;             /* of shard->sweep.owners */
    struct amb_list_node *cursors;         /* struct amb_cursor.of_sub */
    void (*done)(struct amb_sweep *sweep); /* no cursor is left; may free the owner */
};

void amb_sweep_init(struct amb_sweep *sweep, struct amb_list_node *cursors,
                    void (*done)(struct amb_sweep *sweep));
/* Detaches cursors, `max` at most. True: no cursor is left. */
bool amb_sweep_some(struct amb_list_node *cursors, unsigned max);
/* The same for an owner that goes: AMB_SWEEP_NOW cursors. AMB_SWEEP_FEW, where this turn has
 * detached its share: a client may go with a thousand subscriptions. */
bool amb_sweep_first(struct amb_shard *shard, struct amb_list_node *cursors);
/* The rest of the cursors leaves in the turns to come. Harmless twice. */
void amb_sweep_begin(struct amb_shard *shard, struct amb_sweep *sweep);
/* Once a turn. Returns 1 if there was something to do. */
unsigned amb_sweep_run(struct amb_shard *shard);
/* The shard ends: all cursors leave now. */
void amb_sweep_finish(struct amb_shard *shard);
