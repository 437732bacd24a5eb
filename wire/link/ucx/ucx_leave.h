/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a link ends: both ends agree, then the endpoint is closed by force.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

#include "wire/link/ucx/ucx_state.h"

/* Begins a link's end, unless it has begun. UCX is not on the stack, in this and the next two. */
void amb_ucx_leave(struct amb_ucx_link *link);
/* Takes the next step towards it, if it has come to that. */
void amb_ucx_leave_on(struct amb_ucx_link *link);
/* For all links that are leaving, once a turn. */
void amb_ucx_leave_turn(struct amb_ucx_worker *worker);
/* Forces the end: the worker goes. */
void amb_ucx_leave_now(struct amb_ucx_link *link);
