/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory for tests of shards, on the fake driver: the pools of the configuration's devices, and
 * a client that leases slots of the first.
 * Failures end the running CMocka test. Threads: one, and the copier's. Memory: of the harness.
 */
#pragma once

#include "broker/memory/gpupool.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"
#include "tests/support/shard/shard_lease.h"

/* Between harness_init and the first client. */
void harness_gpus_start(struct shard_harness *harness, struct amb_gpus *gpus);
/* After harness_fini: nothing of the first pool may be in use. */
void harness_gpus_stop(struct amb_gpus *gpus);
/* The client has mapped a segment of so many slots. Returns the address of the first. */
uint64_t client_lease_gpu(struct shard_client *client, struct amb_gpus *gpus, uint64_t slot,
                          uint32_t slots, struct client_lease *out);
