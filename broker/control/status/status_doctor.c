/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_doctor.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/status_gpu.h"
#include "broker/control/status/why.h"
#include "broker/doctor/doctor_clients.h"
#include "broker/doctor/doctor_doors.h"
#include "broker/doctor/doctor_files.h"
#include "broker/doctor/doctor_host.h"
#include "broker/doctor/doctor_machine.h"
#include "broker/doctor/doctor_service.h"
#include "broker/doctor/doctor_users.h"
#include "broker/memory/gpupool.h"
#include "wire/base/clock.h"
#include "wire/config/transports.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NUMBER_MAX 24u

static const char *text_of(uint64_t value, char out[NUMBER_MAX])
{
    (void)snprintf(out, NUMBER_MAX, "%" PRIu64, value);
    return out;
}

/* "1 client", "2 clients" */
static const char *clients_text(unsigned count, char out[NUMBER_MAX])
{
    (void)snprintf(out, NUMBER_MAX, "%u client%s", count, count == 1 ? "" : "s");
    return out;
}

/* ---- GPUs ---- */

/* A pool that is in use. */
static void look_at_use(json_t *rows, struct amb_gpu_pool *pool, const char *gpu)
{
    char check[32], text[400], used[NUMBER_MAX], limit[NUMBER_MAX];
    const struct amb_cuda_info *info = amb_cuda_info(pool->cuda);
    uint64_t leased = amb_gpu_pool_used(pool);
    if (leased > pool->size / 10 * 9) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_FULL, "gpu", gpu, "model", info->name, "used",
                        text_of(leased, used), "limit", text_of(pool->size, limit), NULL);
    } else {
        (void)snprintf(check, sizeof(check), "gpu %s", gpu);
        (void)snprintf(text, sizeof(text), "%s (%s, %s): %" PRIu64 " of %" PRIu64 " bytes leased",
                       info->name, info->uuid, info->pci, leased, pool->size);
        amb_doctor_well(rows, check, text, "");
    }
    if (!pool->is_exported) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_NOT_EXPORTED, "gpu", gpu, NULL);
    }
}

static void look_at_pool(json_t *rows, struct amb_gpu_pool *pool, int64_t now_ns)
{
    char gpu[NUMBER_MAX], failure[200], wanted[NUMBER_MAX];
    const struct amb_cuda_info *info = amb_cuda_info(pool->cuda);
    (void)snprintf(gpu, sizeof(gpu), "%d", info->index);
    if (!amb_gpu_pool_is_sound(pool)) {
        amb_cuda_failure(pool->cuda, failure, sizeof(failure));
        amb_doctor_find(rows, AMB_DOCTOR_GPU_LOST, "gpu", gpu, "model", info->name, "why", failure,
                        NULL);
    } else if (amb_gpu_pool_is_stuck(pool, now_ns)) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_STUCK, "gpu", gpu, "model", info->name, NULL);
    } else if (amb_gpu_pool_is_made(pool)) {
        look_at_use(rows, pool, gpu);
    } else if (amb_gpu_pool_retry_status(pool) != AMB_ENOMEM) {
        amb_cuda_failure(pool->cuda, failure, sizeof(failure));
        amb_doctor_find(rows, AMB_DOCTOR_GPU_NO_POOL, "gpu", gpu, "model", info->name, "why",
                        failure, NULL);
    } else {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_NO_ROOM, "gpu", gpu, "model", info->name, "wanted",
                        text_of(pool->size, wanted), NULL);
    }
}

/* Whether devices reach each other decides how fast a copy between them is. */
static void look_at_peers(json_t *rows, const struct amb_gpus *gpus)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        for (uint32_t k = 0; k < gpus->count; k++) {
            char check[64], one[NUMBER_MAX], other[NUMBER_MAX];
            if (i == k || !amb_gpu_pool_is_sound(&gpus->pools[i])) {
                continue;
            }
            (void)snprintf(one, sizeof(one), "%d", amb_cuda_info(gpus->pools[i].cuda)->index);
            (void)snprintf(other, sizeof(other), "%d", amb_cuda_info(gpus->pools[k].cuda)->index);
            if (amb_cuda_can_reach(gpus->pools[i].cuda, gpus->pools[k].cuda)) {
                (void)snprintf(check, sizeof(check), "gpu %s to %s", one, other);
                amb_doctor_well(rows, check, "peer access", "");
            } else {
                amb_doctor_find(rows, AMB_DOCTOR_GPU_PEERS, "gpu", one, "other", other, NULL);
            }
        }
    }
}

static void look_at_trust(json_t *rows, enum amb_gpu_trust trust)
{
    if (trust == AMB_GPU_TRUST_USER) {
        amb_doctor_well(rows, "gpu trust", "its user and root may map GPU memory", "");
        return;
    }
    amb_doctor_find(rows, AMB_DOCTOR_GPU_TRUST, "meaning",
                    trust == AMB_GPU_TRUST_ALL ? "every local client may map, and write, all of it"
                                               : "nobody may map GPU memory: copies only",
                    NULL);
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
    char uid[NUMBER_MAX], text[NUMBER_MAX];
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
    amb_doctor_find(rows, AMB_DOCTOR_GPU_USERS, "count", clients_text(count, text), "name",
                    first->name, "uid", text_of(first->uid, uid), NULL);
}

/* All of a broker that has GPU memory. */
static void look_at_gpus(json_t *rows, const struct amb_control *control,
                         const struct amb_gpus *gpus)
{
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
}

/* ---- clients ---- */

/* Those that are on this host, and do not use it: one is named. */
static void look_at_near(json_t *rows, const struct amb_control *control)
{
    const struct amb_client *first = NULL;
    unsigned count = 0;
    char why[AMB_WHY_MAX], text[NUMBER_MAX];
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
    amb_doctor_find(rows, AMB_DOCTOR_CLIENT_TCP, "count", clients_text(count, text), "name",
                    first->name, "why", why, NULL);
}

/* Both cut the list at the same place, and one has a sign before it. */
_Static_assert(AMB_VISIBLE_DEVICES_SIZE == AMB_DOCTOR_VISIBLE_SIZE + 1, "lists that are compared");

static struct amb_doctor_side side_of(const struct amb_client *client, bool has_gpus)
{
    bool is_of_gpus = has_gpus && client->is_unix && uses_gpu(client);
    return (struct amb_doctor_side){.name = client->name,
                                    .release = client->version,
                                    .pid = client->is_unix ? client->pid : 0,
                                    .is_local = amb_why_is_near(client),
                                    .pid_ns = client->place.pid_ns,
                                    .ipc_ns = client->place.ipc_ns,
                                    .net_ns = client->place.net_ns,
                                    .visible = is_of_gpus ? client->place.visible_devices : NULL,
                                    .ucx_release = client->ucx_release,
                                    .ucx_tx_seg = client->ucx_tx_seg,
                                    .ucx_rx_seg = client->ucx_rx_seg};
}

/* Clients with ids from `last` down to `least`. Returns the first that was left out; 0: none. */
static uint64_t ask_about(const struct amb_control *control, uint64_t last, uint64_t least,
                          struct amb_doctor_proc *proc)
{
    uint64_t left_out = 0;
    const struct amb_list_node *head = &control->clients;
    for (struct amb_list_node *node = head->prev; node != head; node = node->prev) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->has_session && client->id <= last && client->id >= least) {
            const struct amb_doctor_side side = side_of(client, false);
            if (!amb_doctor_proc_ask(proc, &side) && left_out == 0) {
                left_out = client->id;
            }
        }
    }
    return left_out;
}

/* Notes clients that did not say where they are, for /proc. Where they are too many, they take
 * turns, the newest first. So a client that comes waits for its turn, and keeps none of those
 * before it from theirs. */
static void ask_about_clients(struct amb_control *control, struct amb_doctor_proc *proc)
{
    uint64_t last = control->doctor_next;
    uint64_t next = ask_about(control, last, 0, proc);
    uint64_t newer = ask_about(control, UINT64_MAX, last + 1, proc);
    control->doctor_next = next != 0 ? next : newer;
}

/* Namespaces, visible GPUs and releases. */
static void look_at_clients(json_t *rows, const struct amb_control *control, bool has_gpus,
                            const struct amb_doctor_proc *proc)
{
    static const struct amb_doctor_proc nothing;
    struct amb_doctor_clients clients;
    const struct amb_doctor_side own = {.release = AMB_BROKER_VERSION,
                                        .pid_ns = control->pid_ns,
                                        .ipc_ns = control->ipc_ns,
                                        .net_ns = control->net_ns,
                                        .ucx_release = control->ucx_release,
                                        .ucx_tx_seg = control->ucx_tx_seg,
                                        .ucx_rx_seg = control->ucx_rx_seg};
    amb_doctor_clients_init(&clients, proc == NULL ? &nothing : proc, &own);
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (!client->has_session) {
            continue;
        }
        const struct amb_doctor_side side = side_of(client, has_gpus);
        amb_doctor_clients_add(&clients, &side);
    }
    amb_doctor_clients_rows(&clients, rows);
}

/* ---- the broker ---- */

static struct amb_doctor_host facts_of_host(const struct amb_control *control)
{
    const struct amb_gpus *gpus = amb_status_gpus(control);
    bool wants_ucx = control->transports != NULL && control->config->transports.trusted.count != 0;
    return (struct amb_doctor_host){
        .root = amb_doctor_root(),
        .has_pools = gpus != NULL,
        .has_rdma = control->transports != NULL && control->transports->has_rdma,
        .ucx = amb_doctor_ucx(),
        .mps = gpus != NULL ? amb_cuda_info(gpus->pools[0].cuda)->mps : AMB_CUDA_MPS_UNKNOWN,
        .mps_folder = getenv("CUDA_MPS_PIPE_DIRECTORY"),
        .library = amb_ucx_library(),
        .ucx_why = wants_ucx && control->transports->ucx_status != AMB_OK
                       ? control->transports->ucx_why
                       : NULL,
        .left_out = amb_status_gpu_left_out(control)};
}

struct amb_doctor_look *amb_status_doctor_look(struct amb_control *control, amb_mail_fn done,
                                               void *context)
{
    struct amb_doctor_socket sockets[AMB_LISTENERS_MAX];
    size_t count = 0;
    for (unsigned i = 0; i < control->listener_count; i++) {
        const struct amb_listener *listener = &control->listeners[i];
        if (listener->url.scheme == AMB_URL_UNIX) {
            sockets[count++] =
                (struct amb_doctor_socket){listener->url.path, listener->socket_inode};
        }
    }
    struct amb_ucx_places places;
    amb_ucx_places_init(&places);
    struct amb_doctor_files files = {.config = control->config,
                                     .users = control->users,
                                     .sockets = sockets,
                                     .count = count,
                                     .workers = control->shard_count,
                                     .host = facts_of_host(control),
                                     .places = amb_ucx_library() == NULL ? &places : NULL,
                                     .now_s = amb_clock_realtime_ns() / AMB_NS_PER_SEC};
    ask_about_clients(control, &files.proc);
    return amb_doctor_look_begin(&files, &control->inbox, done, context);
}

static void look_at_service(json_t *rows, const struct amb_control *control)
{
    const struct amb_doctor_service look = {.is_managed =
                                                control->service != NULL ||
                                                (getppid() == 1 && getenv("INVOCATION_ID") != NULL),
                                            .has_watchdog = getenv("WATCHDOG_USEC") != NULL};
    amb_doctor_service(&look, rows);
}

static void add_files(json_t *rows, const json_t *files)
{
    if (files == NULL) {
        amb_doctor_look_missing(rows);
        return;
    }
    for (size_t i = 0; i < json_array_size(files); i++) {
        (void)json_array_append(rows, json_array_get(files, i));
    }
}

json_t *amb_status_doctor(const struct amb_control *control, const json_t *files,
                          const struct amb_doctor_proc *proc)
{
    json_t *rows = json_array();
    const struct amb_gpus *gpus = amb_status_gpus(control);
    add_files(rows, files);
    amb_doctor_counters(control->counters, rows);
    look_at_service(rows, control);
    amb_doctor_audit(control->audit, rows);
    look_at_near(rows, control);
    look_at_clients(rows, control, gpus != NULL, proc);
    if (gpus != NULL) {
        look_at_gpus(rows, control, gpus);
    } else {
        amb_doctor_well(rows, "gpu", "no GPU memory: GPU payloads travel through host memory",
                        "set memory.cuda.size where there are GPUs");
    }
    return rows;
}
