/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graceful end. The door closes, workers refuse new batches, and accepted messages are
 * delivered, for drain_timeout at most. Then every client is told and its session closed.
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/clients/control.h"

/* The first call begins, the second ends without waiting. */
void amb_drain_begin(struct amb_control *control);
/* Moves on; called every tick while draining. Sets control->is_over at the end. */
void amb_drain_tick(struct amb_control *control);
