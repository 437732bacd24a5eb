/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a worker, by what frames carry: session, generation, secret.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

#include "wire/link/ucx/ucx_state.h"

/* Makes room for the first links. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_ucx_table_init(struct amb_ucx_worker *worker);
void amb_ucx_table_fini(struct amb_ucx_worker *worker);
/* ENOMEM; ESTATE: the session is there already. */
AMB_MUST_CHECK enum amb_status amb_ucx_table_add(struct amb_ucx_worker *worker,
                                                 struct amb_ucx_link *link);
void amb_ucx_table_remove(struct amb_ucx_worker *worker, struct amb_ucx_link *link);
/* The link of a triple that came over the wire; it may be down. NULL: foreign, and counted. */
struct amb_ucx_link *amb_ucx_find(struct amb_ucx_worker *worker, uint32_t session,
                                  uint32_t generation, uint64_t secret);
