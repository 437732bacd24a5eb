/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease segments as clients ask for them, say that they have them mapped, and give them back.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/requests/requests_private.h"

/* A range of a pool as clients are told of it; it points into the pool. */
void amb_request_gpu_range(struct amb_gpu_pool *pool, uint64_t offset, Amb__Control__GpuRange *out);
void amb_request_lease_open(struct amb_client *client, uint64_t id,
                            const Amb__Control__LeaseOpen *open);
void amb_request_lease_mapped(struct amb_client *client, uint64_t id, uint64_t segment);
/* Is not answered. */
void amb_request_lease_close(struct amb_client *client, uint64_t segment);
