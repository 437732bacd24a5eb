/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bell: one eventfd for both directions, which the broker and its client share. It counts down
 * one by one (EFD_SEMAPHORE), from a number that is never used up.
 *
 *      client ── write 1 ──► EPOLLIN  ──► broker
 *      client ◄── EPOLLOUT ── read 1 ──── broker
 *
 * Each write makes an edge for the one that waits for EPOLLIN, each read one for EPOLLOUT, whatever
 * the number. Nobody looks at the level, and nobody empties it. So a ring costs its broker one
 * descriptor, and no page of a pipe.
 *
 * The open file is the client's, too: it may use the number up, fill it, or make the file blocking.
 * The broker only reads, and by RWF_NOWAIT, which never waits. So a client harms its own wake-ups
 * and nothing else.
 *
 * Threads and Memory: those of link.h. Only the other files of this room include this.
 */
#pragma once

#include "wire/link/ring/ring_state.h"

/* The broker's. *copy: the client's. ELIMIT, ENOMEM; ENOTSUP: the system cannot read an eventfd
 * without waiting. */
AMB_MUST_CHECK enum amb_status ring_bell_make(struct ring *ring, int *copy);
/* Wakes the peer, if it waits. */
void ring_bell_ring(const struct ring *ring);
