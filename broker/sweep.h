/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors leave in slices. A subscription or a queue that goes may have a hundred thousand of them;
 * to detach all in one turn would keep everybody else waiting. So the first AMB_SWEEP_NOW go at
 * once, and the rest AMB_SWEEP_TURN a turn. Their owner stays for so long, without its name: it
 * gets nothing, and whatever of its cursors is walked meanwhile goes to the end of its log, so that
 * it holds nobody back.
 *
 * Threads: the shard's worker. Memory: embedded in the owner.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>

#define AMB_SWEEP_NOW 256u
#define AMB_SWEEP_TURN 1024u
#define AMB_SWEEP_FEW 4u

struct amb_shard;

struct amb_sweep {
    struct amb_list_node node;             /* of shard->sweeps */
    struct amb_list_node *cursors;         /* struct amb_cursor.of_sub */
    void (*done)(struct amb_sweep *sweep); /* none is left; may free it */
};

void amb_sweep_init(struct amb_sweep *sweep, struct amb_list_node *cursors,
                    void (*done)(struct amb_sweep *sweep));
/* Detaches cursors, `max` at most. True: none is left. */
bool amb_sweep_some(struct amb_list_node *cursors, unsigned max);
/* The same of one that goes: as many as go at once. A few, where this turn has detached its share:
 * a client may go with a thousand subscriptions. */
bool amb_sweep_first(struct amb_shard *shard, struct amb_list_node *cursors);
/* The rest of them goes in the turns to come. Harmless twice. */
void amb_sweep_begin(struct amb_shard *shard, struct amb_sweep *sweep);
/* Once a turn. Returns whether there was something to do. */
unsigned amb_sweep_run(struct amb_shard *shard);
/* The shard ends: all of it, now. */
void amb_sweep_finish(struct amb_shard *shard);
