/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_gpu.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/doctor.h"
#include "broker/control/status/doctor_machine.h"
#include "broker/control/status/doctor_tls.h"
#include "broker/control/status/doctor_users.h"
#include "broker/control/status/why.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/config/transports.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct amb_gpus *gpus_of(const struct amb_control *control)
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
    const struct amb_gpus *gpus = gpus_of(control);
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

/* Doctor --------------------------------------------------------------------------------------- */

static void look_at_pool(json_t *rows, struct amb_gpu_pool *pool, int64_t now_ns)
{
    char check[32], text[400], failure[200];
    const struct amb_cuda_info *info = amb_cuda_info(pool->cuda);
    uint64_t used = amb_gpu_pool_used(pool);
    (void)snprintf(check, sizeof(check), "gpu %d", info->index);
    if (!amb_gpu_pool_is_sound(pool)) {
        amb_cuda_failure(pool->cuda, failure, sizeof(failure));
        (void)snprintf(text, sizeof(text), "%s: out of use: %s", info->name, failure);
        amb_doctor_find(rows, check, "error", text,
                        "start the broker anew; see the kernel's log for Xid lines");
        return;
    }
    if (amb_gpu_pool_is_stuck(pool, now_ns)) {
        (void)snprintf(text, sizeof(text), "%s: has not answered for seconds: copies wait",
                       info->name);
        amb_doctor_find(rows, check, "error", text,
                        "see what runs there with nvidia-smi, and the kernel's log for Xid lines");
        return;
    }
    if (!amb_gpu_pool_is_made(pool) && amb_gpu_pool_retry_status(pool) != AMB_ENOMEM) {
        amb_cuda_failure(pool->cuda, failure, sizeof(failure));
        (void)snprintf(text, sizeof(text), "%s: no pool, host memory serves: %s", info->name,
                       failure);
        amb_doctor_find(rows, check, "warning", text, "the broker tries again by itself");
        return;
    }
    if (!amb_gpu_pool_is_made(pool)) {
        (void)snprintf(text, sizeof(text),
                       "%s: no room for a pool of %" PRIu64 " bytes: host memory serves",
                       info->name, pool->size);
        amb_doctor_find(rows, check, "warning", text,
                        "nvidia-smi shows the processes that have the GPU's memory; end them, or "
                        "lower memory.cuda.size: the broker tries again by itself");
        return;
    }
    (void)snprintf(text, sizeof(text), "%s (%s, %s): %" PRIu64 " of %" PRIu64 " bytes leased",
                   info->name, info->uuid, info->pci, used, pool->size);
    bool is_full = used > pool->size / 10 * 9;
    amb_doctor_find(rows, check, is_full ? "warning" : "ok", text,
                    is_full ? "raise memory.cuda.size, or have readers release sooner" : "");
    if (!pool->is_exported) {
        amb_doctor_find(
            rows, check, "warning", "its memory cannot be exported: clients are served by copies",
            "CUDA IPC needs Linux, one IPC namespace, and no MIG slice that forbids it");
    }
}

/* Whether devices reach each other decides how fast a copy between them is. */
static void look_at_peers(json_t *rows, const struct amb_gpus *gpus)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        for (uint32_t k = 0; k < gpus->count; k++) {
            char check[32];
            if (i == k || !amb_gpu_pool_is_sound(&gpus->pools[i])) {
                continue;
            }
            bool can = amb_cuda_can_reach(gpus->pools[i].cuda, gpus->pools[k].cuda);
            (void)snprintf(check, sizeof(check), "gpu %d to %d",
                           amb_cuda_info(gpus->pools[i].cuda)->index,
                           amb_cuda_info(gpus->pools[k].cuda)->index);
            amb_doctor_find(rows, check, can ? "ok" : "warning",
                            can ? "peer access"
                                : "no peer access: copies between them go by the host",
                            can ? "" : "nvidia-smi topo -p2p r shows why (IOMMU, bridge, driver)");
        }
    }
}

static void look_at_trust(json_t *rows, enum amb_gpu_trust trust)
{
    static const char *const trusts[] = {
        [AMB_GPU_TRUST_USER] = "its user and root may map GPU memory",
        [AMB_GPU_TRUST_ALL] = "every local client may map, and write, all of it",
        [AMB_GPU_TRUST_NONE] = "nobody may map GPU memory: copies only"};
    amb_doctor_find(rows, "gpu trust", trust == AMB_GPU_TRUST_USER ? "ok" : "warning",
                    trusts[trust],
                    trust == AMB_GPU_TRUST_USER ? "" : "memory.cuda.trust = \"user\"");
}

/* Has it shown that it has a GPU? */
static bool uses_gpu(const struct amb_client *client)
{
    return client->has_gpu || client->staged_in != 0 || client->staged_out != 0;
}

/* Those that the broker's trust leaves to copies: one is named. */
static void look_at_strangers(json_t *rows, const struct amb_control *control)
{
    const struct amb_client *first = NULL;
    unsigned count = 0;
    char text[256];
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->has_session && uses_gpu(client) && amb_client_may_map(client) &&
            !amb_client_may_map_gpu(client)) {
            first = first == NULL ? client : first;
            count++;
        }
    }
    if (first == NULL || control->config->memory.cuda.trust != AMB_GPU_TRUST_USER) {
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "GPU messages of %u client%s are copied, for their user is not the broker's; "
                   "'%s' of user %u is one",
                   count, count == 1 ? "" : "s", first->name, (unsigned)first->uid);
    amb_doctor_find(rows, "gpu users", "warning", text,
                    "run the broker as the user of its clients; or set memory.cuda.trust = "
                    "\"all\", by which every local user may read and write that GPU memory");
}

static bool wants_ucx(const struct amb_control *control)
{
    return control->transports != NULL && control->config->transports.trusted.count != 0;
}

/* Those that are on this host, and do not use it: one is named. */
static void look_at_near(json_t *rows, const struct amb_control *control)
{
    const struct amb_client *first = NULL;
    unsigned count = 0;
    char why[AMB_WHY_MAX], text[AMB_WHY_MAX + 160];
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->has_session && !client->is_unix && amb_why_is_near(client)) {
            first = first == NULL ? client : first;
            count++;
        }
    }
    if (first == NULL) {
        return;
    }
    amb_why_link(first, NULL, why);
    (void)snprintf(text, sizeof(text),
                   "%u client%s on this host came by TCP, where payloads are copied; '%s' is one",
                   count, count == 1 ? "" : "s", first->name);
    amb_doctor_find(rows, "local clients", "warning", text, why);
}

static void look_at_machine(json_t *rows, const struct amb_control *control)
{
    const struct amb_config *config = control->config;
    const struct amb_doctor_machine look = {.root = "",
                                            .trusted = config->transports.trusted.items,
                                            .trusted_count = config->transports.trusted.count,
                                            .has_rdma = control->transports != NULL &&
                                                        control->transports->has_rdma,
                                            .connections = config->server.max_connections,
                                            .memory_bytes = config->memory.host.size};
    amb_doctor_look_around(&look, rows);
    look_at_near(rows, control);
}

json_t *amb_status_doctor(const struct amb_control *control)
{
    json_t *rows = json_array();
    look_at_machine(rows, control);
    struct amb_ucx_libraries found = {.count = 0};
    if (amb_ucx_library() == NULL) {
        struct amb_ucx_places places;
        amb_ucx_places_init(&places);
        amb_ucx_libraries_find(&places, &found);
    }
    const struct amb_gpus *gpus = gpus_of(control);
    const struct amb_doctor_look look = {
        .root = "",
        .has_pools = gpus != NULL,
        .has_rdma = control->transports != NULL && control->transports->has_rdma,
        .ucx = amb_doctor_ucx(),
        .mps = gpus != NULL ? amb_cuda_info(gpus->pools[0].cuda)->mps : AMB_CUDA_MPS_UNKNOWN,
        .mps_folder = getenv("CUDA_MPS_PIPE_DIRECTORY"),
        .library = amb_ucx_library(),
        .found = &found,
        .ucx_why = wants_ucx(control) && control->transports->ucx_status != AMB_OK
                       ? control->transports->ucx_why
                       : NULL,
        .left_out = amb_status_gpu_left_out(control)};
    amb_doctor_counters(control->counters, rows);
    amb_doctor_tls(control->config->tls.context, amb_clock_realtime_ns() / AMB_NS_PER_SEC, rows);
    amb_doctor_users(control->users, control->config->auth.users_file,
                     amb_clock_realtime_ns() / AMB_NS_PER_SEC, rows);
    amb_doctor_audit(control->audit, rows);
    amb_doctor_host(&look, rows);
    if (gpus == NULL) {
        amb_doctor_find(rows, "gpu", "ok", "no GPU memory: GPU payloads travel through host memory",
                        "set memory.cuda.size where there are GPUs");
        return rows;
    }
    amb_gpus_look(gpus, control->now_ns); /* The log says the same. */
    for (uint32_t i = 0; i < gpus->count; i++) {
        look_at_pool(rows, &gpus->pools[i], control->now_ns);
        if (amb_gpu_pool_is_made(&gpus->pools[i]) && amb_gpu_pool_is_sound(&gpus->pools[i])) {
            const struct amb_cuda_info info = amb_cuda_now(gpus->pools[i].cuda);
            amb_doctor_device(&info, rows);
        }
    }
    look_at_peers(rows, gpus);
    look_at_trust(rows, control->config->memory.cuda.trust);
    look_at_strangers(rows, control);
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->has_session && client->is_unix) {
            amb_doctor_client("", client->name, client->pid, rows);
            if (uses_gpu(client)) {
                amb_doctor_visible("", client->name, client->pid, rows);
            }
        }
    }
    return rows;
}
