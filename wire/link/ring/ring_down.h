/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a ring goes down: its open body and its queue are settled, then its owner is told.
 * Threads and Memory: those of link.h. Only the other files of this room include this.
 */
#pragma once

#include "wire/link/ring/ring_state.h"

/* Takes the link down: settles the open body and the queue, then on_down. Once. */
void ring_down(struct ring *ring, enum amb_status why, const char *text);
/* The client: the broker has taken the memory back. Its indices grow, and are 0 again only where
 * their pages are gone. */
bool ring_is_emptied(const struct ring *ring);
/* Settles the open body and the queue. */
void ring_settle(struct ring *ring, enum amb_status body_status, enum amb_status tx_status);
