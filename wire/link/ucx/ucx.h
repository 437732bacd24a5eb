/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ucx link: active messages between one client's UCX worker and one broker worker. Contexts and
 * whom to trust: ucx_context.h.
 *
 *   amb_ucx_context (process) ─► amb_ucx_worker (thread) ─► link (session)
 *
 * Threads: the thread that made the worker (broker), or one at a time (client: `serialized`).
 */
#pragma once

#include "wire/link/link.h"

struct amb_ucx_context;
struct amb_ucx_worker;

/* Opens a port. ENOMEM, EUCX. */
AMB_MUST_CHECK enum amb_status amb_ucx_worker_create(struct amb_ucx_context *context,
                                                     bool serialized, struct amb_ucx_worker **out);
/* amb_link_close was called on all links before; on_closed may still come, in here. */
void amb_ucx_worker_destroy(struct amb_ucx_worker **worker);
/* This worker's address, valid as long as it lives. */
const void *amb_ucx_worker_address(const struct amb_ucx_worker *worker, size_t *len);
/*
 * Runs callbacks of all links; returns how much was done. amb_link_poll and amb_link_arm of a ucx
 * link do nothing: this and amb_ucx_worker_arm do it for all links of a worker in one go. While a
 * link is closing, call it every 100 ms at least.
 */
unsigned amb_ucx_worker_progress(struct amb_ucx_worker *worker);
int amb_ucx_worker_fd(const struct amb_ucx_worker *worker);
/* False: there is work, do not sleep. */
AMB_MUST_CHECK bool amb_ucx_worker_arm(struct amb_ucx_worker *worker);
/* How long to sleep then at most: UCX's descriptor is a hint that has been seen to come late. */
int64_t amb_ucx_worker_sleep_max_ns(const struct amb_ucx_worker *worker);

/*
 * One end. address: the peer's worker, from an authenticated control connection. session,
 * generation, secret: what every frame of this session carries, in both directions; frames whose
 * triple matches no link of this worker are dropped and counted.
 */
AMB_MUST_CHECK enum amb_status
amb_ucx_link_create(struct amb_ucx_worker *worker, const void *address, size_t address_len,
                    uint32_t session, uint32_t generation, uint64_t secret,
                    const struct amb_link_events *events, void *arg, struct amb_link **out);
/* Frames dropped because they named no link of this worker. */
uint64_t amb_ucx_worker_foreign(const struct amb_ucx_worker *worker);
