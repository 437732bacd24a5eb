/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/closest.h"

#include "wire/base/file.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64u
#define DEVICE_NAME_MAX 80u

const char *amb_distance_name(enum amb_distance distance)
{
    static const char *const names[] = {
        [AMB_DISTANCE_PIX] = "PIX",   [AMB_DISTANCE_PXB] = "PXB", [AMB_DISTANCE_PHB] = "PHB",
        [AMB_DISTANCE_NODE] = "NODE", [AMB_DISTANCE_SYS] = "SYS", [AMB_DISTANCE_NONE] = "-"};
    return names[distance];
}

/* "0000:3b:00.0" */
static bool is_pci(const char *name, size_t len)
{
    static const char form[] = "xxxx:xx:xx.x";
    if (len != sizeof(form) - 1) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (form[i] == 'x' ? isxdigit((unsigned char)name[i]) == 0 : name[i] != form[i]) {
            return false;
        }
    }
    return true;
}

static int read_node(const char *folder)
{
    char text[16];
    bool is_read = amb_file_line(folder, "/numa_node", text, sizeof(text));
    long node = is_read ? strtol(text, NULL, 10) : -1;
    return node >= 0 && node < INT_MAX ? (int)node : -1;
}

/* "/pci0000:3a/..." of a path; NULL: it has no host bridge. Firmware and virtual machines may put
 * folders of their own above one. */
static char *find_bridge(char *path)
{
    for (char *at = strstr(path, "/devices/"); at != NULL; at = strchr(at + 1, '/')) {
        size_t domain = 0;
        while (strncmp(at, "/pci", 4) == 0 && isxdigit((unsigned char)at[4 + domain]) != 0) {
            domain++;
        }
        if (domain >= 4 && at[4 + domain] == ':') {
            return at;
        }
    }
    return NULL;
}

/* A link in sysfs leads to ".../devices/pci0000:3a/0000:3a:00.0/.../0000:3d:00.0". That of a part
 * of a device leads on: the last PCI address counts. */
static bool find_place(const char *link, struct amb_pci_place *out)
{
    char real[PATH_MAX];
    memset(out, 0, sizeof(*out));
    out->node = -1;
    if (realpath(link, real) == NULL) {
        return false;
    }
    char *bridge = find_bridge(real);
    if (bridge == NULL) {
        return false;
    }
    bridge++;
    char *end = NULL;
    for (char *at = strchr(bridge, '/'); at != NULL; at = strchr(at + 1, '/')) {
        size_t len = strcspn(at + 1, "/");
        if (is_pci(at + 1, len)) {
            end = at + 1 + len;
            (void)snprintf(out->pci, sizeof(out->pci), "%.*s", (int)len, at + 1);
        }
    }
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    out->node = read_node(real);
    int len = snprintf(out->path, sizeof(out->path), "%s", bridge);
    return len > 0 && (size_t)len < sizeof(out->path);
}

bool amb_pci_place_of_device(const char *root, const char *device, struct amb_pci_place *out)
{
    static const char *const classes[] = {"infiniband", "net"};
    int name = (int)strcspn(device, ":");
    memset(out, 0, sizeof(*out));
    out->node = -1;
    if (strchr(device, '/') != NULL || device[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        char link[PATH_MAX];
        int len = snprintf(link, sizeof(link), "%s/sys/class/%s/%.*s/device", root, classes[i],
                           name, device);
        if (len > 0 && (size_t)len < sizeof(link) && find_place(link, out)) {
            return true;
        }
    }
    return false;
}

bool amb_pci_place_of(const char *root, const char *pci, struct amb_pci_place *out)
{
    char link[PATH_MAX], lower[AMB_CLOSEST_PCI_MAX];
    size_t len = strlen(pci);
    memset(out, 0, sizeof(*out));
    out->node = -1;
    if (!is_pci(pci, len)) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        lower[i] = (char)tolower((unsigned char)pci[i]);
    }
    int written = snprintf(link, sizeof(link), "%s/sys/bus/pci/devices/%s", root, lower);
    return written > 0 && (size_t)written < sizeof(link) && find_place(link, out);
}

static size_t parts_of(const char *path)
{
    size_t parts = path[0] != '\0';
    for (const char *at = path; *at != '\0'; at++) {
        parts += *at == '/';
    }
    return parts;
}

/* How many parts the two paths begin with in common. */
static size_t common_parts(const char *a, const char *b)
{
    size_t parts = 0, i = 0;
    for (; a[i] != '\0' && a[i] == b[i]; i++) {
        parts += a[i] == '/';
    }
    bool ends_a = a[i] == '\0' || a[i] == '/', ends_b = b[i] == '\0' || b[i] == '/';
    return parts + (i > 0 && ends_a && ends_b ? 1 : 0);
}

enum amb_distance amb_distance_between(const struct amb_pci_place *a, const struct amb_pci_place *b)
{
    if (a->path[0] == '\0' || b->path[0] == '\0') {
        return AMB_DISTANCE_NONE;
    }
    size_t common = common_parts(a->path, b->path);
    if (common >= 2) { /* A bridge or a port below the host bridge leads to both. */
        size_t steps = parts_of(a->path) + parts_of(b->path) - 2 * common;
        /* One switch has a port up, and a port down to each of the two. */
        return steps <= 4 ? AMB_DISTANCE_PIX : AMB_DISTANCE_PXB;
    }
    if (common == 1) {
        return AMB_DISTANCE_PHB;
    }
    return a->node >= 0 && a->node == b->node ? AMB_DISTANCE_NODE : AMB_DISTANCE_SYS;
}

struct device {
    char name[DEVICE_NAME_MAX];
    struct amb_pci_place place;
    bool is_near;
};

/* False: a name is too long, or there are too many. */
static bool split(const char *root, const char *devices, struct device *out, size_t *count)
{
    *count = 0;
    for (const char *at = devices; *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (*count == DEVICES_MAX || len == 0 || len >= DEVICE_NAME_MAX) {
            return false;
        }
        struct device *device = &out[(*count)++];
        memcpy(device->name, at, len);
        device->name[len] = '\0';
        device->is_near = false;
        (void)amb_pci_place_of_device(root, device->name, &device->place);
        at += len + (at[len] == ',');
    }
    return true;
}

/* Marks those that are as near to that GPU as any is. */
static void mark_nearest(const struct amb_pci_place *gpu, struct device *devices, size_t count)
{
    enum amb_distance least = AMB_DISTANCE_NONE;
    for (size_t i = 0; i < count; i++) {
        enum amb_distance distance = amb_distance_between(gpu, &devices[i].place);
        least = distance < least ? distance : least;
    }
    for (size_t i = 0; i < count && least != AMB_DISTANCE_NONE; i++) {
        devices[i].is_near =
            devices[i].is_near || amb_distance_between(gpu, &devices[i].place) == least;
    }
}

bool amb_closest_devices(const char *root, const char *devices, const char *const *gpus,
                         size_t gpu_count, char *out, size_t size)
{
    bool has_any = false;
    size_t count, used = 0;
    struct device *all = calloc(DEVICES_MAX, sizeof(*all));
    if (all == NULL || !split(root, devices, all, &count)) {
        free(all);
        return false;
    }
    for (size_t i = 0; i < gpu_count; i++) {
        struct amb_pci_place gpu;
        if (amb_pci_place_of(root, gpus[i], &gpu)) {
            mark_nearest(&gpu, all, count);
        }
    }
    out[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        if (all[i].is_near) {
            int len = snprintf(out + used, size - used, "%s%s", has_any ? "," : "", all[i].name);
            used += len > 0 ? (size_t)len : 0;
            has_any = true;
        }
    }
    free(all);
    return has_any && used < size;
}
