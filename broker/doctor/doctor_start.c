/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_start.h"

#include "broker/config/config.h"
#include "broker/count/counters_file.h"
#include "broker/doctor/doctor_cpu.h"
#include "broker/doctor/doctor_doors.h"
#include "broker/doctor/doctor_host.h"
#include "broker/doctor/doctor_machine.h"
#include "broker/doctor/doctor_service.h"
#include "broker/doctor/doctor_tls.h"
#include "broker/doctor/doctor_users.h"
#include "wire/base/clock.h"
#include "wire/codec/url.h"
#include "wire/config/transports.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHY_MAX 512u

void amb_doctor_fault(const char *fault, json_t *rows)
{
    static const struct {
        const char *key;
        enum amb_doctor_check check;
    } known[] = {{"server.max_connections: ", AMB_DOCTOR_DESCRIPTORS_SHORT},
                 {"auth.token_file: ", AMB_DOCTOR_TOKEN_FILE},
                 {"http.token_file: ", AMB_DOCTOR_TOKEN_FILE},
                 {"transports.trusted", AMB_DOCTOR_INTERFACE_MISSING},
                 {"is reachable from other machines", AMB_DOCTOR_TCP_OPEN}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strstr(fault, known[i].key) != NULL) {
            amb_doctor_find(rows, known[i].check, "fault", fault, NULL);
            return;
        }
    }
    amb_doctor_find(rows, AMB_DOCTOR_CONFIG_WRONG, "fault", fault, NULL);
}

/* ---- UCX, as it would be loaded ---- */

static void look_at_host(const struct amb_config *config, bool has_rdma, json_t *rows)
{
    struct amb_ucx_library library;
    struct amb_ucx_libraries found = {.count = 0};
    struct amb_ucx_places places;
    char why[WHY_MAX] = "";
    bool wants_ucx = config->transports.trusted.count != 0;
    struct amb_ucx_wish wish = {.library = config->transports.library,
                                .source = "transports.library",
                                .has_rdma = has_rdma};
    amb_ucx_wish_environment(&wish);
    bool has_library =
        wants_ucx && amb_ucx_library_expect(&wish, why, sizeof(why), &library) == AMB_OK;
    amb_ucx_places_init(&places);
    amb_ucx_libraries_find(&places, &found);
    const struct amb_doctor_host look = {.root = amb_doctor_root(),
                                         .has_pools = config->memory.cuda.size != 0,
                                         .has_rdma = has_rdma,
                                         .ucx = !has_library       ? AMB_UCX_CUDA_UNLOADED
                                                : library.has_cuda ? AMB_UCX_CUDA_THERE
                                                                   : AMB_UCX_CUDA_NONE,
                                         .mps = AMB_CUDA_MPS_UNKNOWN,
                                         .mps_folder = getenv("CUDA_MPS_PIPE_DIRECTORY"),
                                         .library = has_library ? &library : NULL,
                                         .found = &found,
                                         .ucx_why = wants_ucx && !has_library ? why : NULL};
    amb_doctor_host(&look, rows);
    if (wants_ucx) {
        amb_doctor_variables(amb_doctor_root(), rows);
    }
}

/* False: something is wrong with the devices, which has become a row. */
static bool look_at_transports(const struct amb_config *config, bool *has_rdma, json_t *rows)
{
    struct amb_transports transports;
    char fault[AMB_CONFIG_ERROR_MAX] = "";
    if (amb_transports_choose(&transports, &config->transports, config->store, amb_doctor_root(),
                              fault, sizeof(fault)) != AMB_OK) {
        amb_doctor_fault(fault, rows);
        return false;
    }
    *has_rdma = transports.has_rdma;
    return true;
}

/* ---- counters ---- */

/* The listener that `auto` lies beside; NULL: there is none. */
static const struct amb_url *first_unix(const struct amb_config *config)
{
    for (size_t i = 0; i < config->doors.count; i++) {
        if (config->doors.items[i].scheme == AMB_URL_UNIX) {
            return &config->doors.items[i];
        }
    }
    return NULL;
}

/* A folder that is not there is made at the start, or is a finding of its own. */
static bool is_on_disk(const struct amb_url *url)
{
    char folder[sizeof(url->path)];
    amb_doctor_socket_folder(url, folder);
    return access(folder, F_OK) == 0 && !amb_counters_file_is_in_memory(folder);
}

static void look_at_counters(const struct amb_config *config, json_t *rows)
{
    const struct amb_url *url = first_unix(config);
    const char *why = NULL;
    bool is_auto = strcmp(config->server.counters_file, "auto") == 0;
    if (strcmp(config->server.counters_file, "none") == 0) {
        why = "server.counters_file is \"none\"";
    } else if (is_auto && url == NULL) {
        why = "there is no Unix socket for them to lie beside";
    } else if (is_auto && is_on_disk(url)) {
        why = AMB_COUNTERS_ON_DISK;
    }
    if (why != NULL) {
        amb_doctor_find(rows, AMB_DOCTOR_COUNTERS_PRIVATE, "why", why, NULL);
    }
}

/* ---- all of it ---- */

static void look_at_machine(const struct amb_config *config, json_t *rows)
{
    bool has_rdma = false;
    bool is_known = look_at_transports(config, &has_rdma, rows);
    const struct amb_doctor_machine look = {.root = amb_doctor_root(),
                                            .has_rdma = has_rdma,
                                            .trusted = config->transports.trusted.items,
                                            .trusted_count =
                                                is_known ? config->transports.trusted.count : 0,
                                            .connections = config->server.max_connections,
                                            .memory_bytes = config->memory.host.size};
    const struct amb_doctor_cpu cpu = {.root = amb_doctor_root(),
                                       .workers = config->server.workers,
                                       .now_ns = amb_clock_monotonic_ns};
    amb_doctor_machine(&look, rows);
    amb_doctor_cpu(&cpu, rows);
    look_at_host(config, has_rdma, rows);
}

void amb_doctor_start(const struct amb_config *config, const char *fault, json_t *rows)
{
    if (config == NULL) {
        amb_doctor_fault(fault, rows); /* The rest depends on it. */
        return;
    }
    const int64_t now_s = amb_clock_realtime_ns() / AMB_NS_PER_SEC;
    const struct amb_doctor_service service = {.is_managed = getenv("NOTIFY_SOCKET") != NULL,
                                               .has_watchdog = getenv("WATCHDOG_USEC") != NULL};
    look_at_machine(config, rows);
    amb_doctor_doors(config, NULL, 0, rows);
    look_at_counters(config, rows);
    amb_doctor_service(&service, rows);
    amb_doctor_tls(config->tls.context, now_s, rows);
    amb_doctor_users(config->auth.users, config->auth.users_file, now_s, rows);
}
