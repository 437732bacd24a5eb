/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's UCX port. A peer that reaches the port can write into this process. So the port is not
 * opened before an authenticated client has asked for the ucx link, and stays open from then on.
 * Threads: the shard's own; UCX wants a worker to be used where it was made.
 */
#pragma once

#include "broker/shard/shard.h"

/* Opens the port unless it is open. About 1 ms. EUCX, ENOTSUP: this broker has no ucx links. */
AMB_MUST_CHECK enum amb_status amb_ucxport_open(struct amb_shard *shard);
/* The time at which the port is to be asked again, rung or not; INT64_MAX: it is not open. */
int64_t amb_ucxport_due(struct amb_shard *shard);
/* The shard's last act with UCX; its sessions are gone. */
void amb_ucxport_close(struct amb_shard *shard);
