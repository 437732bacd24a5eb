/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that UCX has taken the settings that safety rests on.
 * Threads: any.
 */
#pragma once

#include "wire/base/status.h"

#include <stddef.h>

struct amb_ucx_context;

/*
 * Proves, with throw-away workers on the same devices, that the segment sizes asked for are really
 * used. A receiver whose size is smaller than its sender's overruns its buffer. Once a process,
 * some 20 ms; amb_ucx_worker_create asks for it. Ports are open meanwhile; a context by itself has
 * none. EUCX with a sentence.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_context_prove(const struct amb_ucx_context *context,
                                                     char *error, size_t error_size);
