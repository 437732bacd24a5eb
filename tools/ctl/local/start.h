/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning of a local set-up, step by step: the GPUs, the broker, the ranks. False, of each:
 * it has failed, which was said and has a code, or it was told to end. The caller ends those that
 * have been started.
 *
 * Threads: the keeper's. Memory: the lists of the loop. They block, but the loop runs.
 */
#pragma once

#include "tools/ctl/local/loop.h"

/* Finds the GPUs and the number of ranks, and makes room for these. */
bool amb_start_gpus(struct amb_loop *loop);
/* Until it is ready. */
bool amb_start_broker(struct amb_loop *loop);
bool amb_start_ranks(struct amb_loop *loop);
