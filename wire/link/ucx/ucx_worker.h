/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker of the ucx link: active messages between one client's UCX worker and one broker
 * worker. A worker moves all its links; contexts, and whom to trust, are in ucx_context.h.
 *
 *   amb_ucx_context (process) ─► amb_ucx_worker (thread) ─► link (session)
 *
 * Threads: the thread that made the worker (broker), or one at a time (client: `serialized`).
 */
#pragma once

#include "wire/base/clock.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_ucx_context;
struct amb_ucx_worker;

/* Opens a port. ENOMEM, EUCX. */
AMB_MUST_CHECK enum amb_status amb_ucx_worker_create(struct amb_ucx_context *context,
                                                     bool serialized, struct amb_ucx_worker **out);
/* Forces the end of all links; amb_link_close was called on them before. Their operations settle in
 * amb_ucx_worker_progress, within AMB_UCX_SETTLE_NS. */
#define AMB_UCX_SETTLE_NS AMB_NS_PER_SEC
void amb_ucx_worker_force(struct amb_ucx_worker *worker);
/* amb_link_close was called on all links before; on_closed may still come, in here. It waits for
 * them as long, from amb_ucx_worker_force on if that was called. Some turns they have in any case.
 */
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
/* Frames dropped because they named no link of this worker. */
uint64_t amb_ucx_worker_foreign(const struct amb_ucx_worker *worker);
