/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that starts the broker and the ranks, passes their output and signals on, and ends
 * them.
 *
 *   GPUs ─► broker ─► ranks ─► until all have ended ─► what they left ─► broker ─► last lines
 *
 * Threads: one. Memory: some hundred kB, which its end gives back.
 */
#pragma once

#include "tools/ctl/local/local.h"

/*
 * Runs it all and returns the exit code. The signals above are blocked. alive_fd: the end of a
 * pipe; when its other end goes, everything is killed and this process ends at once. Blocks. Leaves
 * no process below this one, and no folder.
 */
int amb_keeper_run(const struct amb_local *local, int alive_fd);
