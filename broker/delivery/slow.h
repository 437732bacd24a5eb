/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions that are slow, or have lost something. They are looked at ten times a second while
 * anything moves. So the way of a message pays nothing for it, and nobody is told of a state that
 * has passed at once. A subscription is slow when it has used 75 % of its credit, or when a message
 * waits for it to give something back. It has recovered below 50 %.
 *
 * A session may have a hundred thousand cursors. A look goes on with its subscriptions in turn, and
 * comes to AMB_SLOW_CURSORS of their cursors; so such a session is judged every few seconds.
 *
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

#define AMB_SLOW_TICK_NS INT64_C(100000000)
#define AMB_SLOW_CURSORS 4096u /* looked at in one look, of one session; the others in the next */
#define AMB_SLOW_NOTES_MAX 64u /* in one look, of one worker; others wait for the next */

struct amb_shard;

enum amb_note_kind {
    AMB_NOTE_SLOW,
    AMB_NOTE_RECOVERED,
    AMB_NOTE_LOST,
    AMB_NOTE_SPILL_BEGIN, /* messages that it waits for have begun to go to host memory: spill.h */
    AMB_NOTE_SPILL_END,   /* it has read all of that */
};

/* Of one subscription. */
struct amb_note {
    enum amb_note_kind kind;
    uint64_t client_id, sub;
    uint32_t handle;
    uint64_t count; /* LOST: messages since the last note about it */
    uint64_t total; /* LOST: in all */
    enum amb_loss why;
    uint64_t msgs_out, bytes_out; /* SLOW, RECOVERED, SPILL: outstanding */
    uint64_t spilled;             /* SPILL: messages so far */
};

/* Looks if it is time to. Returns when it will be; INT64_MAX: when something moves. */
int64_t amb_slow_tick(struct amb_shard *shard);
