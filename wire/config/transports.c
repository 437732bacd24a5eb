/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/transports.h"

#include "wire/base/assert.h"
#include "wire/base/file.h"
#include "wire/base/text.h"
#include "wire/config/closest.h"
#include "wire/config/config_build.h"
#include "wire/config/config_faults.h"
#include "wire/link/ucxlib/ucx_find.h"
#include "wire/link/ucxlib/ucx_lanes.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <dirent.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512u
#define NAME_SIZE 80u

/* The end of an error about a switch that is "on". */
static const char allowed[] = "got \"on\", allowed \"auto\" or \"off\"";

struct probe {
    const struct amb_config_transports *config;
    const struct amb_config_store *store;
    const char *root;
    char *error;
    size_t error_size;
    struct amb_config_faults *faults; /* or NULL */
};

static enum amb_status refuse(const struct probe *probe, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum amb_status refuse(const struct probe *probe, const char *key, const char *format, ...)
{
    char reason[AMB_CONFIG_ERROR_MAX / 2], unused[1];
    const struct amb_config_build build = {
        .error = probe->error != NULL ? probe->error : unused,
        .error_size = probe->error != NULL ? probe->error_size : sizeof(unused),
        .faults = probe->faults,
    };
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    return amb_config_fail(&build, amb_config_place_of(probe->store, key), key, "%s", reason);
}

static bool has_path(const struct probe *probe, const char *format, const char *name)
{
    char path[PATH_SIZE], full[2 * PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%.400s%.79s", format, name);
    (void)snprintf(full, sizeof(full), "%s%s", probe->root, path);
    return access(full, F_OK) == 0;
}

/* "a, b"; false: it does not fit, and the list is as it was. A name that was cut could be another
 * device's, which nobody trusts. */
static bool append(char *list, size_t size, const char *separator, const char *name)
{
    size_t len = strlen(list);
    int wanted = snprintf(list + len, size - len, "%s%s", len == 0 ? "" : separator, name);
    bool fits = wanted >= 0 && (size_t)wanted < size - len;
    if (!fits) {
        list[len] = '\0';
    }
    return fits;
}

/* Adds a device that UCX may use. */
static enum amb_status add_device(const struct probe *probe, const char *name,
                                  struct amb_transports *out)
{
    return append(out->net_devices, sizeof(out->net_devices), ",", name)
               ? AMB_OK
               : refuse(probe, "transports.trusted",
                        "too many devices (got more than %u bytes of names, allowed fewer)",
                        (unsigned)sizeof(out->net_devices) - 1);
}

static void append_folder(const struct probe *probe, const char *folder, char *list, size_t size)
{
    char path[2 * PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s%s", probe->root, folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') {
            (void)append(list, size, ", ", entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static bool is_interface(const struct probe *probe, const char *name)
{
    /* In a container /sys may show another network namespace, so the kernel is asked first. */
    return (probe->root[0] == '\0' && if_nametoindex(name) != 0) ||
           has_path(probe, "/sys/class/net/", name);
}

/* "mlx5_0" or "mlx5_0:1" */
static bool is_rdma_device(const struct probe *probe, const char *name)
{
    char device[NAME_SIZE], ports[PATH_SIZE];
    const char *colon = strchr(name, ':');
    (void)snprintf(device, sizeof(device), "%.*s", (int)strcspn(name, ":"), name);
    if (colon == NULL) {
        return has_path(probe, "/sys/class/infiniband/", device);
    }
    (void)snprintf(ports, sizeof(ports), "/sys/class/infiniband/%s/ports/", device);
    return has_path(probe, ports, colon + 1);
}

/* The RDMA device and port behind an interface; false: there is none. */
static bool find_rdma_device(const struct probe *probe, const char *interface, char *out,
                             size_t size)
{
    char folder[PATH_SIZE], device[PATH_SIZE] = "", path[2 * PATH_SIZE], text[8];
    (void)snprintf(folder, sizeof(folder), "/sys/class/net/%s/device/infiniband", interface);
    append_folder(probe, folder, device, sizeof(device));
    device[strcspn(device, ",")] = '\0';
    if (device[0] == '\0') {
        return false;
    }
    (void)snprintf(path, sizeof(path), "/sys/class/net/%s/dev_port", interface);
    bool is_read = amb_file_line(probe->root, path, text, sizeof(text));
    (void)snprintf(out, size, "%.60s:%lu", device, (is_read ? strtoul(text, NULL, 10) : 0) + 1);
    return true;
}

/* Adds what one trusted name stands for to the devices. */
static enum amb_status add_trusted(const struct probe *probe, const char *name,
                                   struct amb_transports *out)
{
    const struct amb_config_transports *config = probe->config;
    char device[NAME_SIZE], available[256] = "";
    enum amb_status status = AMB_OK;
    if (is_interface(probe, name)) {
        if (config->tcp != AMB_SWITCH_OFF) {
            status = add_device(probe, name, out);
        }
        if (status == AMB_OK && config->infiniband != AMB_SWITCH_OFF &&
            find_rdma_device(probe, name, device, sizeof(device)) &&
            !amb_text_list_has(out->net_devices, device)) {
            status = add_device(probe, device, out);
            out->has_rdma = true;
        }
        return status;
    }
    if (is_rdma_device(probe, name)) {
        if (config->infiniband != AMB_SWITCH_OFF && !amb_text_list_has(out->net_devices, name)) {
            status = add_device(probe, name, out);
            out->has_rdma = true;
        }
        return status;
    }
    append_folder(probe, "/sys/class/net", available, sizeof(available));
    append_folder(probe, "/sys/class/infiniband", available, sizeof(available));
    return refuse(probe, "transports.trusted", "no such interface (got \"%s\", allowed %s)", name,
                  available);
}

/* Leaves only what net_devices names; each must be a device of a trusted interface. */
static enum amb_status choose_devices(const struct probe *probe, struct amb_transports *out)
{
    const struct amb_config_strings *wanted = &probe->config->net_devices;
    char chosen[AMB_TRANSPORTS_TEXT_MAX] = "";
    out->wants_closest =
        wanted->count == 1 && strcmp(wanted->items[0], AMB_NET_DEVICES_CLOSEST) == 0;
    if (out->wants_closest) { /* The GPUs are known later: amb_transports_narrow. */
        return AMB_OK;
    }
    out->has_rdma = wanted->count == 0 && out->has_rdma;
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->items[i];
        if (!amb_text_list_has(out->net_devices, name)) {
            return refuse(probe, "transports.net_devices",
                          "not a device of a trusted interface (got \"%s\", allowed %s)", name,
                          out->net_devices[0] == '\0' ? "none" : out->net_devices);
        }
        (void)append(chosen, sizeof(chosen), ",", name); /* No longer than net_devices is. */
        out->has_rdma = out->has_rdma || is_rdma_device(probe, name);
    }
    if (wanted->count != 0) {
        memcpy(out->net_devices, chosen, sizeof(chosen));
    }
    return AMB_OK;
}

/* A transport that is "on" must be able to work. */
static enum amb_status check_switches(const struct probe *probe, const struct amb_transports *out)
{
    const struct amb_config_transports *config = probe->config;
    bool has_gpu = has_path(probe, "/proc/driver/nvidia/", "version");
    char devices[256] = "";
    append_folder(probe, "/sys/class/infiniband", devices, sizeof(devices));
    if (config->infiniband == AMB_SWITCH_ON && devices[0] == '\0') {
        return refuse(probe, "transports.infiniband",
                      "this machine has no InfiniBand or RoCE device (%s)", allowed);
    }
    if (config->infiniband == AMB_SWITCH_ON && !out->has_rdma) {
        return refuse(probe, "transports.infiniband",
                      "no interface of transports.trusted has an RDMA device; there are %s (%s)",
                      devices, allowed);
    }
    if (config->tcp == AMB_SWITCH_ON && config->trusted.count == 0) {
        return refuse(probe, "transports.tcp",
                      "UCX needs an interface to trust, and transports.trusted is empty (%s)",
                      allowed);
    }
    if (config->rdmacm == AMB_SWITCH_ON) {
        return refuse(probe, "transports.rdmacm",
                      "UCX endpoints are made from worker addresses and no listener, so there is "
                      "nothing for RDMA's connection manager to do (%s)",
                      allowed);
    }
    if (config->nvlink == AMB_SWITCH_ON && !has_gpu) {
        return refuse(probe, "transports.nvlink", "this machine has no NVIDIA driver (%s)",
                      allowed);
    }
    if (config->cuda_copy == AMB_SWITCH_ON && !has_gpu) {
        return refuse(probe, "transports.cuda_copy", "this machine has no NVIDIA driver (%s)",
                      allowed);
    }
    return AMB_OK;
}

/* Loads the UCX that the configuration asks for, where there may be ucx links. Without trust no UCX
 * is loaded, but one that is named must be there. */
static enum amb_status load_ucx(const struct probe *probe, struct amb_transports *out)
{
    const struct amb_config_transports *config = probe->config;
    struct amb_ucx_wish wish = {
        .library = config->library, .source = "transports.library", .has_rdma = out->has_rdma};
    struct amb_ucx_library unused;
    amb_ucx_wish_environment(&wish);
    out->ucx_status =
        config->trusted.count != 0
            ? amb_ucx_library_load(&wish, out->ucx_why, sizeof(out->ucx_why))
            : amb_ucx_library_expect(&wish, out->ucx_why, sizeof(out->ucx_why), &unused);
    return out->ucx_status == AMB_OK || strcmp(wish.library, "auto") == 0
               ? AMB_OK
               : refuse(probe, "transports.library", "%s", out->ucx_why);
}

/* A transport that is "on" must be able to work with that UCX. */
static enum amb_status check_ucx(const struct probe *probe, const struct amb_transports *out)
{
    const struct amb_config_transports *config = probe->config;
    const struct amb_ucx_library *library = amb_ucx_library();
    bool needs_ib = config->infiniband == AMB_SWITCH_ON;
    const char *key = config->tcp == AMB_SWITCH_ON ? "transports.tcp" : "transports.infiniband";
    if (config->tcp != AMB_SWITCH_ON && !needs_ib) {
        return AMB_OK;
    }
    if (out->ucx_status != AMB_OK) {
        return refuse(probe, key, "%s (%s)", out->ucx_why, allowed);
    }
    if (!has_path(probe, "/sys/class/net", "")) {
        return refuse(probe, key, "UCX finds interfaces in /sys, and there is none (%s)", allowed);
    }
    if (needs_ib && library != NULL && !library->has_ib) {
        char text[AMB_UCX_FILE_MAX + 64];
        return refuse(probe, "transports.infiniband",
                      "UCX %s has no InfiniBand module (libuct_ib); " AMB_UCX_INSTALL_IB " (%s)",
                      amb_ucx_library_text(library, text, sizeof(text)), allowed);
    }
    return AMB_OK;
}

/* The lanes that are not off; NULL: all that the link knows. */
static void choose_lanes(const struct amb_config_transports *config, struct amb_transports *out)
{
    const struct {
        enum amb_switch state;
        const char *lanes;
    } lanes[] = {
        {config->tcp, "tcp"},
        {config->infiniband, "rc,dc,ud"},
        {config->nvlink, "cuda_ipc"},
        {config->cuda_copy, "cuda_copy,gdr_copy"},
    };
    bool is_limited = false;
    (void)append(out->tls, sizeof(out->tls), ",", "self");
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        if (lanes[i].state == AMB_SWITCH_OFF) {
            is_limited = true;
        } else {
            (void)append(out->tls, sizeof(out->tls), ",", lanes[i].lanes);
        }
    }
    out->options.tls = is_limited ? out->tls : NULL;
}

static void fill_settings(const struct amb_config_transports *config, struct amb_transports *out)
{
    size_t count = 0;
    if (config->rails != 0) {
        (void)snprintf(out->rails, sizeof(out->rails), "%u", (unsigned)config->rails % 100);
        out->settings[count++] = (struct amb_ucx_setting){"MAX_RNDV_RAILS", out->rails};
    }
    amb_assert(config->ucx.count + count <= AMB_TRANSPORTS_SETTINGS_MAX);
    for (size_t i = 0; i < config->ucx.count; i++) {
        out->settings[count++] =
            (struct amb_ucx_setting){config->ucx.items[i].name, config->ucx.items[i].value};
    }
    out->options.settings = out->settings;
    out->options.setting_count = count;
}

static void fill_options(const struct amb_config_transports *config, struct amb_transports *out)
{
    choose_lanes(config, out);
    fill_settings(config, out);
    amb_ucx_segment_sizes(&out->options.tx_seg, &out->options.rx_seg);
    out->options.net_devices = out->net_devices;
    out->options.port_range = config->port_range[0] == '\0' ? NULL : config->port_range;
    out->options.use_environment = true;
    out->options.wants_cuda_ipc = config->nvlink == AMB_SWITCH_ON;
}

/* RDMA is preferred to a stream, TCP by UCX only where that was asked for. */
static void decide_preference(struct amb_transports *out)
{
    bool goes_by_rdma = out->has_rdma && amb_ucx_library() != NULL && amb_ucx_library()->has_ib;
    out->prefer_ucx = out->has_ucx && (goes_by_rdma || out->prefers_tcp);
}

/* Can this UCX reach anybody by these devices? */
static bool has_lane(const char *root, const struct amb_transports *transports, const char *devices)
{
    const struct amb_ucx_library *library = amb_ucx_library();
    char tls[AMB_UCX_TLS_MAX], lanes[AMB_TRANSPORTS_TEXT_MAX];
    if (library == NULL) {
        return false;
    }
    (void)amb_ucx_lanes(&transports->options, library->release, tls);
    amb_ucx_lanes_possible(root, devices, tls, library->has_ib, lanes, sizeof(lanes));
    return lanes[0] != '\0';
}

/* Whether there are ucx links, and why not. */
static void decide(const struct probe *probe, struct amb_transports *out)
{
    const struct amb_config_transports *config = probe->config;
    bool has_sys = has_path(probe, "/sys/class/net", "");
    out->has_ucx = has_sys && out->net_devices[0] != '\0' && out->ucx_status == AMB_OK;
    out->prefers_tcp = config->tcp == AMB_SWITCH_ON;
    out->needs_rdma = config->infiniband == AMB_SWITCH_ON;
    decide_preference(out);
    if (config->trusted.count == 0) {
        out->why_not = "the broker trusts no interface for ucx links: its key "
                       "transports.trusted is empty";
    } else if (!has_sys) {
        out->why_not = "the broker's UCX finds interfaces in /sys, and there is none";
    } else if (out->ucx_status != AMB_OK) {
        (void)snprintf(out->ucx_obstacle, sizeof(out->ucx_obstacle), "the broker: %s",
                       out->ucx_why);
        out->why_not = out->ucx_obstacle;
    } else if (!out->has_ucx) {
        out->why_not = "the broker's switches in transports leave no device for ucx links";
    } else if (!has_lane(probe->root, out, out->net_devices)) {
        out->has_ucx = out->prefer_ucx = false;
        out->why_not = "the broker's UCX has no InfiniBand module, and no trusted device may be "
                       "used by TCP";
    }
}

static enum amb_status choose(const struct probe *probe, struct amb_transports *transports)
{
    const struct amb_config_strings *trusted = &probe->config->trusted;
    enum amb_status status = AMB_OK;
    memset(transports, 0, sizeof(*transports));
    for (size_t i = 0; status == AMB_OK && i < trusted->count; i++) {
        status = add_trusted(probe, trusted->items[i], transports);
    }
    if (status == AMB_OK) {
        status = choose_devices(probe, transports);
    }
    if (status == AMB_OK) {
        status = check_switches(probe, transports);
    }
    if (status == AMB_OK) {
        fill_options(probe->config, transports);
    }
    return status;
}

enum amb_status amb_transports_choose(struct amb_transports *transports,
                                      const struct amb_config_transports *config,
                                      const struct amb_config_store *store, const char *root,
                                      char *error, size_t error_size)
{
    const struct probe probe = {config, store, root, error, error_size, NULL};
    return choose(&probe, transports);
}

enum amb_status amb_transports_init(struct amb_transports *transports,
                                    const struct amb_config_transports *config,
                                    const struct amb_config_store *store, const char *root,
                                    char *error, size_t error_size,
                                    struct amb_config_faults *faults)
{
    const struct probe probe = {config, store, root, error, error_size, faults};
    enum amb_status status = choose(&probe, transports);
    if (status == AMB_OK) {
        status = load_ucx(&probe, transports);
    }
    if (status == AMB_OK) {
        status = check_ucx(&probe, transports);
    }
    if (status == AMB_OK) {
        decide(&probe, transports);
    } else if (faults != NULL) {
        amb_config_fault_keep(faults);
    }
    return status;
}

void amb_transports_narrow(struct amb_transports *transports, const char *root,
                           const char *const *gpus, size_t gpu_count)
{
    char chosen[AMB_TRANSPORTS_TEXT_MAX];
    if (!transports->wants_closest || !transports->has_ucx ||
        !amb_closest_devices(root, transports->net_devices, gpus, gpu_count, chosen,
                             sizeof(chosen))) {
        return;
    }
    bool has_rdma = amb_ucx_has_rdma(root, chosen);
    if ((transports->needs_rdma && !has_rdma) || !has_lane(root, transports, chosen)) {
        return;
    }
    (void)strcpy(transports->net_devices, chosen); /* No longer than it was. */
    transports->has_rdma = has_rdma;
    decide_preference(transports);
}
