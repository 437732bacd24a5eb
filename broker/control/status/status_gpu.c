/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_gpu.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/doctor/doctor_host.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/shard.h"
#include "wire/config/transports.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const struct amb_gpus *amb_status_gpus(const struct amb_control *control)
{
    const struct amb_gpus *gpus = control->shards[0]->memory.gpus;
    return gpus != NULL && gpus->count != 0 ? gpus : NULL;
}

static json_int_t num(uint64_t value)
{
    return (json_int_t)value;
}

void amb_status_gpu_memory(const struct amb_control *control, json_t *rows)
{
    const struct amb_gpus *gpus = amb_status_gpus(control);
    for (uint32_t i = 0; gpus != NULL && i < gpus->count; i++) {
        struct amb_gpu_pool *pool = &gpus->pools[i];
        const struct amb_cuda_info *info = amb_cuda_info(pool->cuda);
        bool is_made = amb_gpu_pool_is_made(pool);
        const char *missed_why = atomic_load_explicit(&pool->missed_why, memory_order_relaxed);
        (void)json_array_append_new(
            rows,
            json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "kind",
                      "cuda", "device", info->index, "uuid", info->uuid, "state",
                      !amb_gpu_pool_is_sound(pool)                                ? "lost"
                      : amb_gpu_pool_is_stuck(pool, control->now_ns)              ? "stuck"
                      : !is_made && amb_gpu_pool_retry_status(pool) != AMB_ENOMEM ? "no pool"
                      : !is_made                                                  ? "no room"
                      : pool->is_exported                                         ? "ok"
                                                                                  : "not shared",
                      "segment_bytes", num(is_made ? pool->size : 0), "used_bytes",
                      num(amb_gpu_pool_used(pool)), "staged_bytes",
                      num(atomic_load_explicit(&pool->staged_bytes, memory_order_relaxed)),
                      "stage_failures",
                      num(atomic_load_explicit(&pool->stage_failures, memory_order_relaxed)),
                      "received", num(atomic_load_explicit(&pool->received, memory_order_relaxed)),
                      "received_bytes",
                      num(atomic_load_explicit(&pool->received_bytes, memory_order_relaxed)),
                      "missed", num(atomic_load_explicit(&pool->missed, memory_order_relaxed)),
                      "missed_why", missed_why != NULL ? missed_why : ""));
    }
}

void amb_status_gpu_client(const struct amb_client *client, json_t *row)
{
    const char *why = amb_client_gpu_obstacle(client);
    if (why == NULL && client->gpu_reason[0] != '\0') {
        why = client->gpu_reason;
    }
    const char *way = why != NULL ? "staged" : client->has_gpu ? "cuda_ipc" : "possible";
    /* It may map, and staged all the same: a topic with trust = "verify", a full pool. */
    if (client->staged_why[0] != '\0' && why == NULL) {
        why = client->staged_why;
    }
    (void)json_object_set_new(row, "gpu", json_string(way));
    (void)json_object_set_new(row, "gpu_staged_in", json_integer(num(client->staged_in)));
    (void)json_object_set_new(row, "gpu_staged_out", json_integer(num(client->staged_out)));
    (void)json_object_set_new(row, "gpu_why", json_string(why != NULL ? why : ""));
}

const char *amb_status_gpu_left_out(const struct amb_control *control)
{
    char lanes[AMB_UCX_TLS_MAX];
    bool has_cuda = control->ucx != NULL && amb_doctor_ucx() == AMB_UCX_CUDA_THERE;
    return has_cuda ? amb_ucx_lanes(&control->transports->options, control->ucx_release, lanes)
                    : NULL;
}
