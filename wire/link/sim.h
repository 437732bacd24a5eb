/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sim link: two ends in one process, one memory, no system calls, for tests of everything above
 * links. Each end's amb_link_poll delivers what the other end has flushed.
 */
#pragma once

#include "wire/link/link.h"

/* Limits of both directions; 0: none. */
struct amb_sim_options {
    uint64_t bytes_max;   /* flushed and not yet polled; beyond it tx queue */
    unsigned poll_frames; /* at most so many frames a poll */
    uint32_t handles;     /* counters of each kind, for small links that are made fast */
    /* Copies from and to memory of a GPU, or between them; NULL: the ends take none of it. False:
     * that failed, and the receiver's transfer with it. */
    bool (*copy)(void *to, const void *from, uint64_t len);
};

/* ENOMEM. Either end may be closed first; the other one then goes down with ELOST. */
AMB_MUST_CHECK enum amb_status amb_sim_create(const struct amb_sim_options *options,
                                              const struct amb_link_events *events[2],
                                              void *args[2], struct amb_link *out[2]);
/* Makes the end go down at its next poll, as if the peer's machine had vanished. */
void amb_sim_break(struct amb_link *end);
/* While it is held an end is told nothing of what its peer has flushed, nor of its closing. */
void amb_sim_hold(struct amb_link *end, bool is_held);
/* Is nothing on its way to this end, flushed or not? */
bool amb_sim_is_drained(struct amb_link *end);
