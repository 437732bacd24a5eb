/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_machine.h"

#include "broker/count/counters.h"
#include "wire/base/file.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512u
#define LINE_SIZE 256u
#define TEXT_SIZE 400u
#define NAME_SIZE 64u
#define NUMBER_SIZE 24u
#define DEVICES_MAX 16u /* of one kind that are looked at */
#define SLOW_MBIT 1000l /* an interface of less is named */
#define LEAST_MTU 1500l /* Ethernet's: less costs more in each packet */
#define SMALL_MTU 9000l /* of a fast one */
#define FAST_MBIT 10000l
#define SHM_MIN (UINT64_C(64) << 20) /* the size in a container where nobody has set one */
#define MEMLOCK_SPARE (UINT64_C(64) << 20)
#define DESCRIPTORS_FEW 1024u /* a shell's, if nobody has raised it */

/* ---- what is read ---- */

static const char *text_of(uint64_t value, char out[NUMBER_SIZE])
{
    (void)snprintf(out, NUMBER_SIZE, "%" PRIu64, value);
    return out;
}

/* The names in a folder; returns how many, at most DEVICES_MAX. */
static size_t list(const char *root, const char *folder, char names[DEVICES_MAX][NAME_SIZE])
{
    char full[PATH_SIZE];
    size_t count = 0;
    (void)snprintf(full, sizeof(full), "%s%s", root, folder);
    DIR *dir = opendir(full);
    for (struct dirent *entry; dir != NULL && count < DEVICES_MAX && (entry = readdir(dir));) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(names[count++], NAME_SIZE, "%.*s", (int)NAME_SIZE - 1, entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return count;
}

/* A soft limit of this process; UINT64_MAX: none. False: not known. */
static bool read_limit(const char *root, const char *name, uint64_t *out)
{
    char line[LINE_SIZE];
    char *end;
    if (!amb_doctor_line(root, "/proc/self/limits", name, line, sizeof(line))) {
        return false;
    }
    const char *at = line + strlen(name);
    at += strspn(at, " ");
    if (strncmp(at, "unlimited", strlen("unlimited")) == 0) {
        *out = UINT64_MAX;
        return true;
    }
    *out = strtoull(at, &end, 10);
    return end != at;
}

/* ---- interfaces ---- */

/* Neither an interface nor an RDMA device ("mlx5_0:1"). Where this /sys shows no loopback it is not
 * that of our network namespace, and nothing is known. */
static bool is_missing(const char *root, const char *name)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.60s", name);
    if (amb_file_may(root, path, F_OK) || !amb_file_may(root, "/sys/class/net/lo", F_OK)) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s", (int)strcspn(name, ":"), name);
    return !amb_file_may(root, path, F_OK);
}

static long interface_number(const char *root, const char *name, const char *what)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.60s/%s", name, what);
    return amb_doctor_number(root, path);
}

static void look_at_rates(const char *name, long mbit, long mtu, json_t *rows)
{
    char check[NAME_SIZE + 16], text[TEXT_SIZE], rate[NUMBER_SIZE], size[NUMBER_SIZE];
    (void)text_of((uint64_t)(mbit < 0 ? 0 : mbit), rate);
    (void)text_of((uint64_t)(mtu < 0 ? 0 : mtu), size);
    if (mbit > 0 && mbit < SLOW_MBIT) {
        amb_doctor_find(rows, AMB_DOCTOR_INTERFACE_SLOW, "name", name, "rate", rate, "limit",
                        "1000", NULL);
    } else if (mtu > 0 && mtu < LEAST_MTU) {
        amb_doctor_find(rows, AMB_DOCTOR_INTERFACE_MTU_SMALL, "name", name, "mtu", size, "limit",
                        "1500", NULL);
    } else if (mbit >= FAST_MBIT && mtu > 0 && mtu < SMALL_MTU) {
        amb_doctor_find(rows, AMB_DOCTOR_INTERFACE_MTU, "name", name, "rate", rate, "mtu", size,
                        NULL);
    } else {
        (void)snprintf(check, sizeof(check), "interface %.60s", name);
        (void)snprintf(text, sizeof(text), "%.60s is up", name);
        amb_doctor_well(rows, check, text, "");
    }
}

static void look_at_interface(const char *root, const char *name, json_t *rows)
{
    char path[PATH_SIZE], state[32] = "", text[TEXT_SIZE];
    if (is_missing(root, name)) {
        (void)snprintf(text, sizeof(text), "transports.trusted: %.60s is not there", name);
        amb_doctor_find(rows, AMB_DOCTOR_INTERFACE_MISSING, "fault", text, NULL);
        return;
    }
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.60s/operstate", name);
    if (!amb_file_line(root, path, state, sizeof(state))) {
        return; /* An RDMA device; or another network namespace's /sys. */
    }
    if (strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0) {
        amb_doctor_find(rows, AMB_DOCTOR_INTERFACE_DOWN, "name", name, NULL);
        return;
    }
    look_at_rates(name, interface_number(root, name, "speed"), interface_number(root, name, "mtu"),
                  rows);
}

static void look_at_interfaces(const struct amb_doctor_machine *look, json_t *rows)
{
    if (look->trusted_count == 0) {
        amb_doctor_well(rows, "interfaces", "no interface is trusted: there are no ucx links",
                        "transports.trusted names those on which UCX may open ports");
    }
    for (size_t i = 0; i < look->trusted_count; i++) {
        look_at_interface(look->root, look->trusted[i], rows);
    }
}

/* ---- RDMA ---- */

/* A port whose link is down, or that is no member of a subnet yet. */
static void look_at_ports(const char *root, const char *device, json_t *rows)
{
    char ports[DEVICES_MAX][NAME_SIZE], folder[PATH_SIZE], path[2 * PATH_SIZE], state[64];
    char check[2 * NAME_SIZE + 16];
    (void)snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports", device);
    size_t count = list(root, folder, ports);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/state", folder, ports[i]);
        bool is_read = amb_file_line(root, path, state, sizeof(state)); /* "4: ACTIVE" */
        if (is_read && strstr(state, "ACTIVE") != NULL) {
            (void)snprintf(check, sizeof(check), "rdma %s:%s", device, ports[i]);
            amb_doctor_well(rows, check, "its port is active", "");
        } else {
            amb_doctor_find(rows, AMB_DOCTOR_RDMA_PORT, "device", device, "port", ports[i], "state",
                            is_read ? state : "of no known state", NULL);
        }
    }
}

/* The files that RDMA goes by. Where there is none, doctor.c says so. */
static void look_at_verbs(const char *root, json_t *rows)
{
    char names[DEVICES_MAX][NAME_SIZE], path[NAME_SIZE + 32];
    size_t count = list(root, "/dev/infiniband", names);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "/dev/infiniband/%s", names[i]);
        if (strncmp(names[i], "uverbs", strlen("uverbs")) == 0 &&
            !amb_file_may(root, path, R_OK | W_OK)) {
            amb_doctor_find(rows, AMB_DOCTOR_RDMA_CLOSED, "path", path, NULL);
        }
    }
}

static void look_at_rdma(const struct amb_doctor_machine *look, json_t *rows)
{
    char devices[DEVICES_MAX][NAME_SIZE];
    size_t count = list(look->root, "/sys/class/infiniband", devices);
    for (size_t i = 0; i < count; i++) {
        look_at_ports(look->root, devices[i], rows);
    }
    look_at_verbs(look->root, rows);
}

/* ---- limits ---- */

static void look_at_memlock(const struct amb_doctor_machine *look, json_t *rows)
{
    uint64_t limit;
    char text[TEXT_SIZE], allowed[NUMBER_SIZE], wanted[NUMBER_SIZE];
    if (!read_limit(look->root, "Max locked memory", &limit)) {
        return;
    }
    if (limit == UINT64_MAX) {
        amb_doctor_well(rows, "memlock", "memory may be locked without a limit", "");
    } else if (look->has_rdma && limit < look->memory_bytes + MEMLOCK_SPARE) {
        amb_doctor_find(rows, AMB_DOCTOR_MEMLOCK, "limit", text_of(limit, allowed), "wanted",
                        text_of(look->memory_bytes, wanted), NULL);
    } else {
        (void)snprintf(text, sizeof(text), "%" PRIu64 " bytes may be locked%s", limit,
                       look->has_rdma ? "" : "; nothing here locks memory, as there is no RDMA");
        amb_doctor_well(rows, "memlock", text, "");
    }
}

static void look_at_descriptors(const struct amb_doctor_machine *look, json_t *rows)
{
    uint64_t limit;
    char text[TEXT_SIZE], allowed[NUMBER_SIZE], clients[NUMBER_SIZE];
    if (!read_limit(look->root, "Max open files", &limit)) {
        return;
    }
    if (limit <= DESCRIPTORS_FEW) {
        amb_doctor_find(rows, AMB_DOCTOR_DESCRIPTORS_FEW, "limit", text_of(limit, allowed),
                        "clients", text_of(look->connections, clients), NULL);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "%" PRIu64 " descriptors may be open, which is enough for %" PRIu32 " clients",
                   limit, look->connections);
    amb_doctor_well(rows, "descriptors", text, "");
}

/* ---- memory ---- */

/* Of a line of mounts. */
static uint64_t shm_size(const char *line)
{
    const char *size = strstr(line, "size=");
    char *end = NULL;
    uint64_t value = size == NULL ? UINT64_MAX : strtoull(size + strlen("size="), &end, 10);
    return end != NULL && *end == 'k' ? value << 10 : value;
}

/* Bytes of the size= option of the mount at /dev/shm; UINT64_MAX: it has none. False: no mount. Of
 * several the last one is on top. */
static bool read_shm(const char *root, uint64_t *out)
{
    char full[PATH_SIZE], line[PATH_SIZE];
    bool is_found = false;
    (void)snprintf(full, sizeof(full), "%s/proc/self/mounts", root);
    FILE *file = fopen(full, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strstr(line, " /dev/shm tmpfs ") != NULL) {
            is_found = true;
            *out = shm_size(line);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_found;
}

/* Rings and segments are memfds, which no mount limits. Others on the machine have less luck. */
static void look_at_shm(const struct amb_doctor_machine *look, json_t *rows)
{
    uint64_t size = 0;
    char text[TEXT_SIZE];
    if (!read_shm(look->root, &size)) {
        amb_doctor_well(rows, "/dev/shm", "no tmpfs is at /dev/shm; rings and segments need none",
                        "programs beside the broker (NCCL, PyTorch) may need one: --ipc=host or "
                        "--shm-size");
        return;
    }
    bool is_small = size <= SHM_MIN;
    if (size == UINT64_MAX) {
        (void)snprintf(text, sizeof(text), "/dev/shm has the default size, half of the memory");
    } else {
        (void)snprintf(text, sizeof(text),
                       "/dev/shm has %" PRIu64 " bytes; rings and segments take nothing of it",
                       size);
    }
    amb_doctor_well(rows, "/dev/shm", text,
                    is_small ? "programs beside the broker (NCCL, PyTorch) may need more: "
                               "--ipc=host or --shm-size"
                             : "");
}

static void look_at_huge_pages(const struct amb_doctor_machine *look, json_t *rows)
{
    char line[LINE_SIZE];
    if (!amb_file_line(look->root, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", line,
                       sizeof(line))) {
        amb_doctor_well(rows, "huge pages", "this kernel has none for shared memory", "");
    } else if (strstr(line, "[always]") != NULL || strstr(line, "[within_size]") != NULL ||
               strstr(line, "[force]") != NULL) {
        amb_doctor_well(rows, "huge pages", "segments may lie in huge pages", "");
    } else {
        amb_doctor_find(rows, AMB_DOCTOR_HUGE_PAGES, NULL);
    }
}

/* ---- the control group ---- */

/* A file's number, where that is less than *least. */
static void take_least(const char *root, const char *path, uint64_t *least)
{
    char line[LINE_SIZE];
    char *end;
    if (amb_file_line(root, path, line, sizeof(line))) {
        uint64_t value = strtoull(line, &end, 10); /* "max" is no number */
        *least = end != line && value < *least ? value : *least;
    }
}

/* Of a group and those above it: "/a/b", "/a", "". */
static void take_groups(const char *root, const char *mount, char *group, const char *file,
                        uint64_t *least)
{
    char path[PATH_SIZE];
    for (;;) {
        (void)snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
        take_least(root, path, least);
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

/* The bytes that the control groups of this process leave it; UINT64_MAX: no limit. */
static uint64_t group_limit(const char *root)
{
    uint64_t least = UINT64_MAX;
    char line[LINE_SIZE];
    if (amb_doctor_line(root, "/proc/self/cgroup", "0::", line, sizeof(line))) {
        take_groups(root, "/sys/fs/cgroup", line + strlen("0::"), "memory.max", &least);
    }
    take_least(root, "/sys/fs/cgroup/memory.max", &least);
    take_least(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", &least); /* version 1 */
    return least;
}

static void look_at_memory(const struct amb_doctor_machine *look, json_t *rows)
{
    static const char total[] = "MemTotal:";
    char line[LINE_SIZE], limit[NUMBER_SIZE], wanted[NUMBER_SIZE];
    uint64_t group = group_limit(look->root);
    (void)text_of(look->memory_bytes, wanted);
    if (group < look->memory_bytes) {
        amb_doctor_find(rows, AMB_DOCTOR_MEMORY_CGROUP, "limit", text_of(group, limit), "wanted",
                        wanted, NULL);
    }
    if (!amb_doctor_line(look->root, "/proc/meminfo", total, line, sizeof(line))) {
        return;
    }
    uint64_t kib = strtoull(line + strlen(total), NULL, 10);
    if (kib > 0 && kib < look->memory_bytes >> 10) {
        amb_doctor_find(rows, AMB_DOCTOR_MEMORY_RAM, "limit", text_of(kib << 10, limit), "wanted",
                        wanted, NULL);
    }
}

void amb_doctor_machine(const struct amb_doctor_machine *look, json_t *rows)
{
    look_at_interfaces(look, rows);
    look_at_rdma(look, rows);
    look_at_memlock(look, rows);
    look_at_descriptors(look, rows);
    look_at_shm(look, rows);
    look_at_huge_pages(look, rows);
    look_at_memory(look, rows);
}

void amb_doctor_counters(const struct amb_counters *counters, json_t *rows)
{
    char finding[AMB_COUNTERS_PATH_MAX + 64];
    if (counters == NULL) {
        return;
    }
    if (counters->path[0] == '\0') {
        amb_doctor_find(rows, AMB_DOCTOR_COUNTERS_PRIVATE, "why", counters->why, NULL);
        return;
    }
    (void)snprintf(finding, sizeof(finding), "counters lie in %s", counters->path);
    amb_doctor_well(rows, "counters", finding, "");
}
