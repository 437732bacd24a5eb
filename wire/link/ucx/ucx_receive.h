/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way in.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

#include "wire/link/ucx/ucx_state.h"

/* UCX's handler; arg is the worker. */
ucs_status_t amb_ucx_am_data(void *arg, const void *header, size_t header_length, void *data,
                             size_t length, const ucp_am_recv_param_t *param);
