/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer's side of a ring: units and flow values in.
 * Threads and Memory: those of link.h. Only the other files of this room include this.
 */
#pragma once

#include "wire/link/ring/ring_state.h"

/* The link's; see link.h. */
unsigned ring_poll(struct amb_link *link, unsigned budget);
/* Something is there to be polled. want_flow: also if it is but flow values. */
bool ring_can_poll(struct ring *ring, bool want_flow);
