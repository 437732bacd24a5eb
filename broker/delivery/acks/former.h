/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Former deliveries of a member: their time is over, or an operator has called them back, and their
 * messages went home unsettled. Its client may have them in work yet. An ACK of such a delivery is
 * late: it settles the messages wherever they are by now (queue_late.h). Else a member that is
 * slower than its credit would get the same messages for ever. A late NAK, TERM or IN_PROGRESS
 * changes nothing: the messages are another delivery's.
 *
 *   pending ─► time over ─► former ─► all of it acknowledged late, or forgotten
 *
 * A client may release a message before it acknowledges it. So one that is released is forgotten
 * when its room is wanted, the one that was released first before the others. Where all are held by
 * the client, further ones are not noted.
 *
 * An ACK goes home as a take: the former delivery itself where all of it is settled, else a new
 * one. Of those that one cumulative ACK settles, AMB_FORMERS_TURN go home in a turn, and the others
 * in the next ones. A member that leaves meanwhile has the same bound, and its takes go behind
 * them.
 *
 * Threads: the subscription's worker. Memory: a take each (take.h), of the heap of the session: of
 * all its members together at most AMB_FORMERS_MAX, and a share of that heap. And a take for each
 * ACK of a part.
 */
#pragma once

#include "wire/base/idmap.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_FORMERS_MAX 65536u
#define AMB_FORMERS_HEAP_SHARE 8u /* one part in so many of its session's heap */
/* Sent home by a worker in one turn because of cumulative ACKs, with the takes behind them. */
#define AMB_FORMERS_TURN 1024u

struct amb_frame;
struct amb_shard;
struct amb_take;
struct amb_taker;

struct amb_formers {
    struct amb_idmap known;        /* struct amb_take.known, by delivery number */
    struct amb_list_node list;     /* struct amb_take.node: as their time was over */
    struct amb_list_node released; /* struct amb_take.kin: the first one is forgotten first */
    uint64_t settled_before;       /* cumulative ACKs settle all with a lower number */
    struct amb_list_node settling; /* of the shard: some of these have still to go home */
};

/* A take that was sent is about to go home unsettled. */
void amb_former_note(struct amb_taker *taker, const struct amb_take *take);
/* NULL: that delivery is none, or is forgotten. */
struct amb_take *amb_former_find(const struct amb_taker *taker, uint64_t number);
/* An ACK or TERM frame of one, about messages that it had. */
void amb_former_said(struct amb_taker *taker, struct amb_take *former,
                     const struct amb_frame *frame);
/* A cumulative ACK of that number settles all with a lower one. They go home, as far as the turn's
 * budget goes. */
void amb_former_ack_before(struct amb_taker *taker, uint64_t number);
/* Once a turn: more of those that cumulative ACKs have settled go home. Returns how many. *next_ns
 * is lowered to now where some have still to go. */
unsigned amb_formers_run(struct amb_shard *shard, int64_t *next_ns);
/* The member leaves: more of those that cumulative ACKs have settled go home, as the budget goes.
 * False: some have still to go. Then the session is charged for none of them any more, the caller
 * sets is_leaving, and amb_taker_leave_on is called behind the last one. */
bool amb_formers_leave(struct amb_taker *taker);
/* At the broker's end, when no worker runs: sends all that are left, and the takes behind them.
 * Mail of the workers is run once more then. */
void amb_formers_finish(struct amb_shard *shard);
/* The client has released that delivery. */
void amb_former_released(struct amb_taker *taker, uint64_t number);
/* Forgets all. */
void amb_formers_fini(struct amb_taker *taker);
