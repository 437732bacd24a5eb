/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_host.h"

#include "wire/base/file.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512u

static bool has(const char *root, const char *path)
{
    return amb_file_may(root, path, F_OK);
}

static void look_at_driver(const struct amb_doctor_host *look, json_t *rows)
{
    char version[160];
    if (!amb_doctor_driver(look->root, version, sizeof(version))) {
        amb_doctor_well(rows, "gpu driver", "this host has no NVIDIA driver", "");
    } else if (amb_doctor_devices(look->root, rows)) {
        return;
    } else if (look->has_pools) {
        amb_doctor_well(rows, "gpu driver", version, "");
    } else {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_UNUSED, "version", version, NULL);
    }
}

static void look_at_mps(const struct amb_doctor_host *look, json_t *rows)
{
    char pipe[PATH_SIZE];
    (void)snprintf(pipe, sizeof(pipe), "%s/control",
                   look->mps_folder != NULL ? look->mps_folder : "/tmp/nvidia-mps");
    if (look->mps == AMB_CUDA_MPS_YES) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_MPS, NULL);
    } else if (!has(look->root, pipe)) {
        return;
    } else if (!amb_file_may(look->root, pipe, R_OK | W_OK)) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_MPS_CLOSED, "path", pipe, NULL);
    } else if (look->has_pools) {
        amb_doctor_well(rows, "gpu mps",
                        look->mps == AMB_CUDA_MPS_NO
                            ? "MPS is here, and the broker has its GPUs beside it: an error of "
                              "MPS's clients does not reach it"
                            : "MPS is here; this driver does not say whether the broker shares "
                              "its GPUs by it",
                        "");
    }
}

void amb_doctor_device(const struct amb_cuda_info *info, json_t *rows)
{
    char number[16], check[32], text[320], fix[160];
    const char *mode = amb_cuda_mode_alone(info);
    (void)snprintf(number, sizeof(number), "%d", info->index);
    if (mode != NULL) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_MODE, "gpu", number, "mode", mode, "pci", info->pci,
                        NULL);
    }
    if (info->is_mig) {
        (void)snprintf(check, sizeof(check), "gpu %d mig", info->index);
        (void)snprintf(text, sizeof(text),
                       "%s is a part of a GPU (%s): clients on another part are served by copies",
                       info->name, info->uuid);
        (void)snprintf(fix, sizeof(fix), "start clients with CUDA_VISIBLE_DEVICES=%s", info->uuid);
        amb_doctor_well(rows, check, text, fix);
    }
}

static void look_at_ucx(const struct amb_doctor_host *look, json_t *rows)
{
    if (look->ucx == AMB_UCX_CUDA_UNLOADED) {
        amb_doctor_well(rows, "ucx cuda",
                        "no ucx links here, and so no UCX: GPU payloads need none on one host", "");
    } else if (look->ucx == AMB_UCX_CUDA_THERE) {
        amb_doctor_well(rows, "ucx cuda", "this UCX has its CUDA modules", "");
    } else if (look->has_pools) {
        amb_doctor_find(rows, AMB_DOCTOR_UCX_NO_CUDA, NULL);
    } else {
        amb_doctor_well(rows, "ucx cuda",
                        "this UCX has no CUDA modules: GPU payloads of ucx links are staged", "");
    }
    if (look->left_out != NULL && look->has_pools) {
        amb_doctor_find(rows, AMB_DOCTOR_UCX_CUDA_IPC, "why", look->left_out, NULL);
    } else if (look->left_out != NULL) {
        amb_doctor_well(rows, "ucx cuda_ipc", look->left_out,
                        amb_doctor_row(AMB_DOCTOR_UCX_CUDA_IPC)->fix);
    }
}

static void look_at_library(const struct amb_doctor_host *look, json_t *rows)
{
    char library[AMB_UCX_FILE_MAX + 64], text[AMB_UCX_FILE_MAX + 128];
    if (look->library != NULL) {
        (void)snprintf(text, sizeof(text), "UCX %s, found as %s",
                       amb_ucx_library_text(look->library, library, sizeof(library)),
                       amb_ucx_origin_name(look->library->origin));
        amb_doctor_well(rows, "ucx", text, "");
    } else if (look->ucx_why != NULL) {
        amb_doctor_find(rows, AMB_DOCTOR_UCX_MISSING, "why", look->ucx_why, NULL);
    }
}

/* The first of this machine's RDMA devices; false: it has none. */
static bool find_rdma(const char *root, char *out, size_t size)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    DIR *dir = opendir(path);
    bool is_found = false;
    for (const struct dirent *entry; dir != NULL && !is_found && (entry = readdir(dir)) != NULL;) {
        is_found = entry->d_name[0] != '.';
        (void)snprintf(out, size, "%.*s", (int)size - 1, is_found ? entry->d_name : "");
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return is_found;
}

static bool has_any_ib(const struct amb_ucx_libraries *found)
{
    for (size_t i = 0; i < found->count; i++) {
        if (found->items[i].has_ib) {
            return true;
        }
    }
    return false;
}

/* No UCX is loaded: is there one that could serve the device? */
static void look_at_module(const struct amb_doctor_host *look, const char *device, json_t *rows)
{
    char text[160];
    if (look->found == NULL || !has_any_ib(look->found)) {
        amb_doctor_find(rows, AMB_DOCTOR_RDMA_NO_MODULE, "device", device, "library",
                        "no UCX with its", NULL);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "the RDMA device %s is here, and a UCX with its InfiniBand module (libuct_ib)",
                   device);
    amb_doctor_well(rows, "ucx infiniband", text,
                    "name the device, or its interface, in transports.trusted");
}

static void look_at_infiniband(const struct amb_doctor_host *look, json_t *rows)
{
    char device[64], text[160], library[AMB_UCX_FILE_MAX + 64];
    if (!find_rdma(look->root, device, sizeof(device))) {
        return;
    }
    if (look->library == NULL) {
        look_at_module(look, device, rows);
    } else if (!look->library->has_ib) {
        char whole[sizeof(library) + 16];
        (void)snprintf(whole, sizeof(whole), "UCX %s has no",
                       amb_ucx_library_text(look->library, library, sizeof(library)));
        amb_doctor_find(rows, AMB_DOCTOR_RDMA_NO_MODULE, "device", device, "library", whole, NULL);
    } else if (!has(look->root, "/dev/infiniband")) {
        amb_doctor_find(rows, AMB_DOCTOR_RDMA_HIDDEN, "device", device, NULL);
    } else if (!has(look->root, "/etc/libibverbs.d")) {
        amb_doctor_find(rows, AMB_DOCTOR_RDMA_DRIVERS, NULL);
    } else {
        (void)snprintf(text, sizeof(text), "this UCX has its InfiniBand module, and %s",
                       look->has_rdma ? "a trusted RDMA device" : "no RDMA device is trusted");
        amb_doctor_well(rows, "ucx infiniband", text,
                        look->has_rdma ? "" : "name one, or its interface, in transports.trusted");
    }
}

static void look_at_gpudirect(const struct amb_doctor_host *look, json_t *rows)
{
    bool has_peermem =
        has(look->root, "/sys/module/nvidia_peermem") || has(look->root, "/sys/module/nv_peer_mem");
    if (!look->has_rdma) {
        amb_doctor_well(rows, "gpudirect", "no RDMA device in use", "");
    } else if (has_peermem) {
        amb_doctor_well(rows, "gpudirect",
                        has(look->root, "/dev/gdrdrv") ? "peer memory module and gdrcopy are there"
                                                       : "the peer memory module is there",
                        "");
    } else {
        amb_doctor_find(rows, AMB_DOCTOR_PEER_MEMORY, NULL);
    }
}

void amb_doctor_host(const struct amb_doctor_host *look, json_t *rows)
{
    look_at_driver(look, rows);
    look_at_mps(look, rows);
    look_at_library(look, rows);
    look_at_ucx(look, rows);
    look_at_infiniband(look, rows);
    look_at_gpudirect(look, rows);
}

enum amb_ucx_cuda amb_doctor_ucx(void)
{
    const struct amb_ucx_library *library = amb_ucx_library();
    if (library == NULL) {
        return AMB_UCX_CUDA_UNLOADED;
    }
    return library->has_cuda ? AMB_UCX_CUDA_THERE : AMB_UCX_CUDA_NONE;
}
