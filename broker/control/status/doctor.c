/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/doctor.h"

#include "wire/base/file.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512u

void amb_doctor_find(json_t *rows, const char *check, const char *state, const char *finding,
                     const char *fix)
{
    (void)json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s}", "check", check, "state",
                                                state, "finding", finding, "fix", fix));
}

static bool has(const char *root, const char *path)
{
    return amb_file_may(root, path, F_OK);
}

#define MINORS_MAX 64

/* The first of the driver's devices that is not there (F_OK) or may not be opened. False: none. */
static bool find_obstacle(const char *root, int mode, char out[32])
{
    static const char *const always[] = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
    unsigned gpus = 0;
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        (void)snprintf(out, 32, "%s", always[i]);
        if (!amb_file_may(root, out, mode)) {
            return true;
        }
    }
    for (unsigned minor = 0; minor < MINORS_MAX; minor++) {
        (void)snprintf(out, 32, "/dev/nvidia%u", minor);
        bool is_there = has(root, out);
        gpus += is_there;
        if (is_there && !amb_file_may(root, out, mode)) {
            return true;
        }
    }
    (void)snprintf(out, 32, "/dev/nvidia0");
    return gpus == 0;
}

static void look_at_driver(const struct amb_doctor_look *look, json_t *rows)
{
    char version[160], device[32], text[160];
    if (!amb_file_line(look->root, "/proc/driver/nvidia/version", version, sizeof(version))) {
        amb_doctor_find(rows, "gpu driver", "ok", "this host has no NVIDIA driver", "");
        return;
    }
    if (find_obstacle(look->root, F_OK, device)) {
        (void)snprintf(text, sizeof(text),
                       "the driver is there, and its device %s is not shown here", device);
        amb_doctor_find(rows, "gpu driver", "warning", text,
                        "run the container with its GPUs (--gpus all); on the host itself "
                        "nvidia-modprobe makes them (-c 255 -c 0, and -u -c 0)");
        return;
    }
    /* A service manager's list of devices answers here too. */
    if (find_obstacle(look->root, R_OK | W_OK, device)) {
        (void)snprintf(text, sizeof(text), "the driver's device %s may not be opened by the broker",
                       device);
        amb_doctor_find(rows, "gpu driver", "warning", text,
                        "with systemd use ambroker-gpu.service; else see the device's group");
        return;
    }
    amb_doctor_find(rows, "gpu driver", look->has_pools ? "ok" : "warning", version,
                    look->has_pools ? "" : "the broker has no GPU memory: set memory.cuda.size");
}

static void look_at_mps(const struct amb_doctor_look *look, json_t *rows)
{
    char pipe[PATH_SIZE], text[PATH_SIZE + 80];
    (void)snprintf(pipe, sizeof(pipe), "%s/control",
                   look->mps_folder != NULL ? look->mps_folder : "/tmp/nvidia-mps");
    if (look->mps == AMB_CUDA_MPS_YES) {
        amb_doctor_find(rows, "gpu mps", "warning",
                        "the broker shares its GPUs by MPS: an error of one client ends the GPU "
                        "memory of all, the broker's too",
                        "where the GPUs are in the default mode, start brokerd with "
                        "CUDA_MPS_PIPE_DIRECTORY naming an empty folder");
    } else if (!has(look->root, pipe)) {
        return;
    } else if (!amb_file_may(look->root, pipe, R_OK | W_OK)) {
        (void)snprintf(text, sizeof(text), "MPS is here, and the broker may not open %s", pipe);
        amb_doctor_find(rows, "gpu mps", "warning", text,
                        "MPS serves one user at a time: run the broker as the user of its clients");
    } else if (look->has_pools) {
        amb_doctor_find(rows, "gpu mps", "ok",
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
    char check[32], text[320], fix[160];
    const char *mode = amb_cuda_mode_alone(info);
    if (mode != NULL) {
        (void)snprintf(check, sizeof(check), "gpu %d mode", info->index);
        (void)snprintf(fix, sizeof(fix), "nvidia-smi -i %s -c DEFAULT, or MPS for all processes",
                       info->pci);
        (void)snprintf(text, sizeof(text),
                       "%s mode, and the broker has this GPU: every other process that wants it "
                       "gets error 46",
                       mode);
        amb_doctor_find(rows, check, "warning", text, fix);
    }
    if (info->is_mig) {
        (void)snprintf(check, sizeof(check), "gpu %d mig", info->index);
        (void)snprintf(text, sizeof(text),
                       "%s is a part of a GPU (%s): clients on another part are served by copies",
                       info->name, info->uuid);
        (void)snprintf(fix, sizeof(fix), "start clients with CUDA_VISIBLE_DEVICES=%s", info->uuid);
        amb_doctor_find(rows, check, "ok", text, fix);
    }
}

static void look_at_ucx(const struct amb_doctor_look *look, json_t *rows)
{
    switch (look->ucx) {
    case AMB_UCX_CUDA_UNLOADED:
        amb_doctor_find(rows, "ucx cuda", "ok",
                        "no ucx links here, and so no UCX: GPU payloads need none on one host", "");
        break;
    case AMB_UCX_CUDA_NONE:
        amb_doctor_find(rows, "ucx cuda", look->has_pools ? "warning" : "ok",
                        "this UCX has no CUDA modules: GPU payloads of ucx links are staged",
                        look->has_pools ? "install a UCX with CUDA (libuct_cuda.so)" : "");
        break;
    case AMB_UCX_CUDA_THERE:
        amb_doctor_find(rows, "ucx cuda", "ok", "this UCX has its CUDA modules", "");
        break;
    }
    if (look->left_out != NULL) {
        amb_doctor_find(rows, "ucx cuda_ipc", look->has_pools ? "warning" : "ok", look->left_out,
                        "install UCX 1.22.1 or newer; transports.nvlink = \"on\" uses it all the "
                        "same");
    }
}

static void look_at_library(const struct amb_doctor_look *look, json_t *rows)
{
    char library[AMB_UCX_FILE_MAX + 64], text[AMB_UCX_FILE_MAX + 128];
    if (look->library != NULL) {
        (void)snprintf(text, sizeof(text), "UCX %s, found as %s",
                       amb_ucx_library_text(look->library, library, sizeof(library)),
                       amb_ucx_origin_name(look->library->origin));
        amb_doctor_find(rows, "ucx", "ok", text, "");
    } else if (look->ucx_why != NULL) {
        amb_doctor_find(rows, "ucx", "warning", look->ucx_why,
                        "install UCX 1.13 or newer (Debian, Ubuntu: libucx0), or see "
                        "transports.library");
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
        (void)snprintf(out, size, "%s", is_found ? entry->d_name : "");
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

/* UCX has its module, and this process may use the device? NULL, or the fix. */
static const char *verbs_obstacle(const char *root, char *text, size_t size)
{
    if (!has(root, "/dev/infiniband")) {
        (void)snprintf(text, size, "the kernel's devices in /dev/infiniband are not shown here");
        return "run the container with --device /dev/infiniband; on the host: modprobe ib_uverbs";
    }
    if (!has(root, "/etc/libibverbs.d")) {
        (void)snprintf(text, size, "libibverbs has no driver for any device (/etc/libibverbs.d)");
        return "install the drivers (Debian, Ubuntu: ibverbs-providers; others: rdma-core)";
    }
    return NULL;
}

static void look_at_infiniband(const struct amb_doctor_look *look, json_t *rows)
{
    char device[64], text[AMB_UCX_FILE_MAX + 256], library[AMB_UCX_FILE_MAX + 64];
    if (!find_rdma(look->root, device, sizeof(device))) {
        return;
    }
    if (look->library == NULL) {
        bool has_module = look->found != NULL && has_any_ib(look->found);
        (void)snprintf(text, sizeof(text),
                       "the RDMA device %s is here, and %s InfiniBand module (libuct_ib)", device,
                       has_module ? "a UCX with its" : "no UCX with its");
        amb_doctor_find(rows, "ucx infiniband", has_module ? "ok" : "warning", text,
                        has_module ? "name the device, or its interface, in transports.trusted"
                                   : AMB_UCX_INSTALL_IB);
        return;
    }
    if (!look->library->has_ib) {
        (void)snprintf(text, sizeof(text),
                       "the RDMA device %s is here, and UCX %s has no InfiniBand module "
                       "(libuct_ib): its links go by TCP",
                       device, amb_ucx_library_text(look->library, library, sizeof(library)));
        amb_doctor_find(rows, "ucx infiniband", "warning", text, AMB_UCX_INSTALL_IB);
        return;
    }
    const char *fix = verbs_obstacle(look->root, text, sizeof(text));
    if (fix != NULL) {
        amb_doctor_find(rows, "ucx infiniband", "warning", text, fix);
        return;
    }
    (void)snprintf(text, sizeof(text), "this UCX has its InfiniBand module, and %s",
                   look->has_rdma ? "a trusted RDMA device" : "no RDMA device is trusted");
    amb_doctor_find(rows, "ucx infiniband", "ok", text,
                    look->has_rdma ? "" : "name one, or its interface, in transports.trusted");
}

static void look_at_gpudirect(const struct amb_doctor_look *look, json_t *rows)
{
    bool has_peermem =
        has(look->root, "/sys/module/nvidia_peermem") || has(look->root, "/sys/module/nv_peer_mem");
    if (!look->has_rdma) {
        amb_doctor_find(rows, "gpudirect", "ok", "no RDMA device in use", "");
    } else if (has_peermem) {
        amb_doctor_find(rows, "gpudirect", "ok",
                        has(look->root, "/dev/gdrdrv") ? "peer memory module and gdrcopy are there"
                                                       : "the peer memory module is there",
                        "");
    } else {
        amb_doctor_find(rows, "gpudirect", "warning",
                        "no peer memory module: RDMA goes by host memory, unless it is by dmabuf",
                        "modprobe nvidia_peermem");
    }
}

void amb_doctor_host(const struct amb_doctor_look *look, json_t *rows)
{
    look_at_driver(look, rows);
    look_at_mps(look, rows);
    look_at_library(look, rows);
    look_at_ucx(look, rows);
    look_at_infiniband(look, rows);
    look_at_gpudirect(look, rows);
}

/* Of a process's environment at its start; pid 0: this one's. */
enum found {
    FOUND_NO_ANSWER,
    FOUND_UNSET,
    FOUND_SET,
};

static enum found find_variable(const char *root, pid_t pid, const char *name, char *out,
                                size_t size)
{
    char path[PATH_SIZE];
    if (pid > 0) {
        (void)snprintf(path, sizeof(path), "%s/proc/%d/environ", root, (int)pid);
    } else {
        (void)snprintf(path, sizeof(path), "%s/proc/self/environ", root);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return FOUND_NO_ANSWER;
    }
    char *entry = NULL;
    size_t room = 0, len = strlen(name);
    enum found found = FOUND_UNSET;
    while (found == FOUND_UNSET && getdelim(&entry, &room, '\0', file) > 0) {
        if (strncmp(entry, name, len) == 0 && entry[len] == '=') {
            (void)snprintf(out, size, "%s", entry + len + 1);
            for (char *at = out; *at != '\0'; at++) { /* A client's words. */
                *at = (char)(*at >= ' ' && *at <= '~' ? *at : '?');
            }
            found = FOUND_SET;
        }
    }
    free(entry);
    (void)fclose(file);
    return found;
}

void amb_doctor_visible(const char *root, const char *name, pid_t pid, json_t *rows)
{
    static const char variable[] = "CUDA_VISIBLE_DEVICES";
    char own[100] = "", theirs[100] = "", text[400];
    enum found here = find_variable(root, 0, variable, own, sizeof(own));
    enum found there =
        pid > 0 ? find_variable(root, pid, variable, theirs, sizeof(theirs)) : FOUND_NO_ANSWER;
    /* A broker that sees all GPUs has what a client sees. */
    if (here != FOUND_SET || there == FOUND_NO_ANSWER || strcmp(own, theirs) == 0) {
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "client '%s' has CUDA_VISIBLE_DEVICES=%s, and the broker %s: GPUs that only one "
                   "of them sees are served by copies",
                   name, there == FOUND_SET ? theirs : "(unset)", own);
    amb_doctor_find(rows, "gpu visible", "warning", text,
                    "start the broker without CUDA_VISIBLE_DEVICES; memory.cuda.devices chooses "
                    "the GPUs of its pools");
}

/* A process's namespace by /proc; false: it may not be asked. */
static bool namespace_of(const char *root, pid_t pid, const char *kind, char *out, size_t size)
{
    char path[PATH_SIZE];
    if (pid > 0) {
        (void)snprintf(path, sizeof(path), "%s/proc/%d/ns/%s", root, (int)pid, kind);
    } else {
        (void)snprintf(path, sizeof(path), "%s/proc/self/ns/%s", root, kind);
    }
    ssize_t len = readlink(path, out, size - 1);
    if (len >= 0) {
        out[len] = '\0';
    }
    return len >= 0;
}

void amb_doctor_client(const char *root, const char *name, pid_t pid, json_t *rows)
{
    static const char *const kinds[] = {"pid", "ipc"};
    if (pid <= 0) {
        return;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char own[64], theirs[64], text[160];
        if (namespace_of(root, 0, kinds[i], own, sizeof(own)) &&
            namespace_of(root, pid, kinds[i], theirs, sizeof(theirs)) && strcmp(own, theirs) != 0) {
            (void)snprintf(text, sizeof(text),
                           "client '%s' is in another %s namespace: CUDA IPC does not cross it, it "
                           "is served by copies",
                           name, kinds[i]);
            amb_doctor_find(rows, "gpu namespaces", "warning", text,
                            strcmp(kinds[i], "pid") == 0 ? "run its container with --pid=host"
                                                         : "run its container with --ipc=host");
        }
    }
}

enum amb_ucx_cuda amb_doctor_ucx(void)
{
    const struct amb_ucx_library *library = amb_ucx_library();
    if (library == NULL) {
        return AMB_UCX_CUDA_UNLOADED;
    }
    return library->has_cuda ? AMB_UCX_CUDA_THERE : AMB_UCX_CUDA_NONE;
}
