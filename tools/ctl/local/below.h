/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes below this one, however they came there: children, and theirs, also those that made
 * sessions of their own or whose parents have ended. The kernel gives such orphans to the nearest
 * ancestor that asked for them (PR_SET_CHILD_SUBREAPER). So a process that ends its children again
 * and again, until there are none, has ended all.
 * Threads: one. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AMB_BELOW_SPARED_MAX 64u

struct amb_below_spared {
    unsigned count;
    pid_t pids[AMB_BELOW_SPARED_MAX];
};

/* The children that there are now. A process has some that it did not start if a shell became it
 * (exec), as with `> >(tee log)`. False: there are more than that, or it cannot be found out. */
bool amb_below_look(struct amb_below_spared *out);
/* From here on orphans from below become children of this process. */
void amb_below_adopt(void);
/* SIGKILL to each child but those (NULL: to each). Returns how many there were, with those that
 * have ended and were not reaped. Where that cannot be found out: 1. */
unsigned amb_below_kill(const struct amb_below_spared *spared);
/* Ends all but those (NULL: all), and reaps them. A spared one that has ended is reaped, too, and
 * leaves the list. False: none of those left has ended for so long, as a process of another user
 * does not. Where new ones come, it is false after ten times as long. */
bool amb_below_end(struct amb_below_spared *spared, int64_t limit_ns);
