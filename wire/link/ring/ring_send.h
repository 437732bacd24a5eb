/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's side of a ring: frames and flow values out, and waking the peer.
 * Threads and Memory: those of link.h. Only the other files of this room include this.
 */
#pragma once

#include "wire/link/ring/ring_state.h"

/* These three are the link's; see link.h. */
enum amb_status ring_send(struct amb_link *link, struct amb_link_tx *tx);
void ring_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle, uint64_t value);
void ring_flush(struct amb_link *link);
/* Writes queued tx as far as there is room and calls on_sent; returns how many were settled. */
unsigned ring_pump(struct ring *ring);
/* The first queued tx could go on. Looks at the peer's head. */
bool ring_can_pump(struct ring *ring);
/* Makes everything visible and wakes the peer if it waits for it. No callbacks. */
void ring_push_out(struct ring *ring);
/* Nothing more will come: tells the peer, after what it has been sent, and wakes it. */
void ring_say_closed(struct ring *ring);
