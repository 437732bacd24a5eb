/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a ucx link, made on a worker that moves it.
 * Threads: those of the worker (ucx_worker.h).
 */
#pragma once

#include "wire/link/link.h"

struct amb_ucx_worker;

/*
 * One end. address: the peer's worker, from an authenticated control connection. session,
 * generation, secret: the triple that every frame of this session carries, in both directions.
 * Frames whose triple matches no link of this worker are dropped and counted.
 */
AMB_MUST_CHECK enum amb_status
amb_ucx_link_create(struct amb_ucx_worker *worker, const void *address, size_t address_len,
                    uint32_t session, uint32_t generation, uint64_t secret,
                    const struct amb_link_events *events, void *arg, struct amb_link **out);
