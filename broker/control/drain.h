/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graceful end: the door closes, workers refuse new batches, what was accepted is delivered, at
 * most drain_timeout; then every client is told and its session closed.
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/clients/control.h"

/* The first call begins, the second ends without waiting. */
void amb_drain_begin(struct amb_control *control);
/* Moves on; called every tick while draining. Sets control->is_over at the end. */
void amb_drain_tick(struct amb_control *control);
