/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_net.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/status_gpu.h"
#include "broker/memory/gpupool.h"
#include "broker/shard/shard.h"
#include "wire/config/closest.h"
#include "wire/config/transports.h"
#include "wire/link/ucxlib/ucx_lanes.h"
#include "wire/link/ucxlib/ucx_process.h"
#include "wire/link/ucxlib/ucx_release.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_SIZE 512u
#define LANES_SIZE 512u
#define DEVICES_MAX 256u /* of a machine, in `topo` */
#define NAME_SIZE 80u

static bool has_ib(void)
{
    return amb_ucx_library() != NULL && amb_ucx_library()->has_ib;
}

/* The lanes that UCX is told to use. */
static void find_lanes(const struct amb_control *control, const char *root, const char *devices,
                       char *out, size_t size)
{
    char tls[AMB_UCX_TLS_MAX];
    (void)amb_ucx_lanes(&control->transports->options, control->ucx_release, tls);
    amb_ucx_lanes_possible(root, devices, tls, has_ib(), out, size);
}

json_t *amb_status_net_broker(const struct amb_control *control)
{
    char lanes[LANES_SIZE], text[AMB_UCX_FILE_MAX + 64];
    const struct amb_ucx_library *library = amb_ucx_library();
    if (control->ucx == NULL || library == NULL) {
        return NULL;
    }
    const struct amb_transports *transports = control->transports;
    const char *left_out = amb_status_gpu_left_out(control);
    find_lanes(control, "", transports->net_devices, lanes, sizeof(lanes));
    const char *why = transports->has_rdma && !library->has_ib
                          ? "no InfiniBand module (libuct_ib): " AMB_UCX_INSTALL_IB
                      : left_out != NULL ? left_out
                                         : "";
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "id", 0, "name", "(broker)", "state",
                     "possible", "link", "ucx", "lanes", lanes, "why_not_better", why, "ucx",
                     amb_ucx_library_text(library, text, sizeof(text)));
}

void amb_status_net_client(const struct amb_client *client, json_t *row)
{
    char text[AMB_UCX_RELEASE_TEXT_MAX] = "";
    if (client->ucx_release != 0) {
        (void)amb_ucx_release_text(client->ucx_release, text, sizeof(text));
    }
    (void)json_object_set_new(row, "ucx", json_string(text));
}

/* Topo ----------------------------------------------------------------------------------------- */

static bool list_has(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at != '\0';) {
        size_t word = strcspn(at, ",");
        size_t device = strcspn(at, ",:");
        if ((word == len || device == len) && strncmp(at, name, len) == 0) {
            return true;
        }
        at += word + (at[word] == ',');
    }
    return false;
}

struct devices {
    char names[DEVICES_MAX][NAME_SIZE];
    size_t count;
};

/* Those that matter to a GPU: they have a place, or are used. A machine with containers has
 * hundreds of others. */
static bool matters(const struct amb_transports *transports, const char *root, const char *device)
{
    struct amb_pci_place place;
    return amb_pci_place_of_device(root, device, &place) ||
           list_has(transports->net_devices, device);
}

/* Adds those that matter, or those that do not, as far as there is room. */
static void add_devices(const struct amb_transports *transports, const char *root,
                        const char *class, bool that_matter, struct devices *out)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/sys/class/%s", root, class);
    DIR *dir = opendir(path);
    for (const struct dirent *entry;
         dir != NULL && out->count < DEVICES_MAX && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < NAME_SIZE &&
            matters(transports, root, entry->d_name) == that_matter) {
            (void)strcpy(out->names[out->count++], entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static json_t *topo_row(const struct amb_control *control, const char *root, const char *device,
                        const char *gpu_pci, size_t gpu)
{
    struct amb_pci_place place, at_gpu = {.path = ""};
    char numa[16] = "", name[24] = "", lanes[LANES_SIZE];
    const struct amb_transports *transports = control->transports;
    (void)amb_pci_place_of_device(root, device, &place);
    if (place.node >= 0) {
        (void)snprintf(numa, sizeof(numa), "%d", place.node);
    }
    if (gpu_pci != NULL) {
        (void)snprintf(name, sizeof(name), "%zu", gpu);
        (void)amb_pci_place_of(root, gpu_pci, &at_gpu);
    }
    bool is_used = transports->has_ucx && list_has(transports->net_devices, device);
    find_lanes(control, root, device, lanes, sizeof(lanes));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "device", device, "pci", place.pci,
                     "numa", numa, "gpu", name, "gpu_pci", gpu_pci == NULL ? "" : gpu_pci,
                     "distance", amb_distance_name(amb_distance_between(&place, &at_gpu)), "lanes",
                     lanes, "used", is_used);
}

json_t *amb_status_net_rows(const struct amb_control *control, const char *root,
                            const char *const *gpus, size_t gpu_count)
{
    json_t *rows = json_array();
    struct devices *devices = calloc(1, sizeof(*devices));
    if (devices == NULL) {
        return rows;
    }
    for (unsigned i = 0; i < 2; i++) {
        add_devices(control->transports, root, "infiniband", i == 0, devices);
        add_devices(control->transports, root, "net", i == 0, devices);
    }
    qsort(devices->names, devices->count, NAME_SIZE, compare_names);
    for (size_t i = 0; i < devices->count; i++) {
        for (size_t gpu = 0; gpu < gpu_count || gpu == 0; gpu++) {
            (void)json_array_append_new(rows, topo_row(control, root, devices->names[i],
                                                       gpu < gpu_count ? gpus[gpu] : NULL, gpu));
        }
    }
    free(devices);
    return rows;
}

json_t *amb_status_topo(const struct amb_control *control)
{
    const struct amb_gpus *gpus = control->shards[0]->memory.gpus;
    const char *addresses[AMB_CUDA_DEVICES_MAX];
    size_t count = 0;
    for (uint32_t i = 0; gpus != NULL && i < gpus->count && count < AMB_CUDA_DEVICES_MAX; i++) {
        addresses[count++] = amb_cuda_info(gpus->pools[i].cuda)->pci;
    }
    return amb_status_net_rows(control, "", addresses, count);
}
