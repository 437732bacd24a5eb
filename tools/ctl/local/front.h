/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that the user has started: it passes signals on to the keeper and waits for it. It
 * takes over if the keeper is killed.
 * Threads: the main one. Memory: none.
 */
#pragma once

#include "tools/ctl/local/local.h"

/* Fills in the folder and the mask, and runs it all. Returns the exit code; a failure has been
 * said. Blocks. Signals stay blocked for the rest of this process. */
int amb_local_run(struct amb_local *local);
