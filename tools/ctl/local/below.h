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

/* From here on orphans from below become children of this process. */
void amb_below_adopt(void);
/* SIGKILL to each child but `spared` (0: to each). Returns how many there were. */
unsigned amb_below_kill(pid_t spared);
/* Ends all, and reaps them. False: some have not ended within the time, as a process of another
 * user does not. Blocks as long at most. */
bool amb_below_end(int64_t limit_ns);
