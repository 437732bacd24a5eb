/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's context, one a process and set of trusted interfaces, and memory that is registered in it.
 * A UCX port opens the whole process to its peers. So contexts are made only for interfaces that
 * the owner declared trusted, endpoints only after authentication, and shared-memory lanes never.
 * UCX types stay inside wire/link/ucx and wire/link/ucxlib.
 *
 *   amb_ucx_context (process) ─► amb_ucx_worker (thread) ─► link (session)
 *
 * Threads: any, after creation.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/link/ucxlib/ucx_settings.h"

struct amb_link_mem;
struct amb_ucx_context;

/* ENOTSUP, EUCX, EINVAL; error (may be NULL) then holds a sentence. */
AMB_MUST_CHECK enum amb_status amb_ucx_context_create(const struct amb_ucx_options *options,
                                                      char *error, size_t error_size,
                                                      struct amb_ucx_context **out);
void amb_ucx_context_destroy(struct amb_ucx_context **context);

/* Registers host memory for links of this context. The result is for amb_link_tx.mem and on_frame.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_register(struct amb_ucx_context *context, void *address,
                                                size_t length, struct amb_link_mem **out);
void amb_ucx_unregister(struct amb_link_mem **mem);
