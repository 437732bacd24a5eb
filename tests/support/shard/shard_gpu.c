/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/shard/shard_gpu.h"

#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/segment_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

void harness_gpus_start(struct shard_harness *harness, struct amb_gpus *gpus)
{
    char error[256];
    assert_int_equal(amb_gpus_start(gpus, harness->config, error, sizeof(error)), AMB_OK);
    for (unsigned i = 0; i < harness->count; i++) {
        harness->shards[i].memory.gpus = gpus;
    }
}

void harness_gpus_stop(struct amb_gpus *gpus)
{
    assert_int_equal(amb_gpu_pool_used(&gpus->pools[0]), 0);
    amb_gpus_stop(gpus);
    amb_gpus_fini(gpus);
}

uint64_t client_lease_gpu(struct shard_client *client, struct amb_gpus *gpus, uint64_t slot,
                          uint32_t slots, struct client_lease *out)
{
    struct amb_session *session = client->session;
    struct amb_segment_lease *lease;
    const char *why = "";
    session->may_map_gpu = true;
    assert_int_equal(amb_segment_lease_open_gpu(session->shard, &session->book, &gpus->pools[0],
                                                slot, slots, &lease, &why),
                     AMB_OK);
    assert_int_equal(lease->state, AMB_LEASE_OFFERED);
    *out = (struct client_lease){
        .segment = lease->segment->id, .size = lease->segment->size, .slot = slot, .fd = -1};
    uint64_t address = (uintptr_t)lease->segment->base;
    assert_int_equal(client_lease_say_mapped(client, out->segment), AMB_OK);
    return address;
}
