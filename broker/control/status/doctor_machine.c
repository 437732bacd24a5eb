/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/doctor_machine.h"

#include "broker/control/status/doctor.h"
#include "broker/count/counters.h"
#include "wire/base/file.h"

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
#define DEVICES_MAX 16u /* of one kind that are looked at */
#define SLOW_MBIT 1000l /* an interface of less is named */
#define SMALL_MTU 9000l /* of a fast one */
#define FAST_MBIT 10000l
#define SHM_MIN (UINT64_C(64) << 20) /* the size in a container where nobody has set one */
#define MEMLOCK_SPARE (UINT64_C(64) << 20)
#define DESCRIPTORS_FEW 1024u /* a shell's, if nobody has raised it */

/* ---- what is read ---- */

/* The first line of a file that begins so; false: there is none. */
static bool find_line(const char *root, const char *path, const char *start, char *out, size_t size)
{
    char full[PATH_SIZE];
    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    FILE *file = fopen(full, "re");
    bool is_found = false;
    while (file != NULL && !is_found && fgets(out, (int)size, file) != NULL) {
        is_found = strncmp(out, start, strlen(start)) == 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (is_found) {
        out[strcspn(out, "\n")] = '\0';
    }
    return is_found;
}

/* A number in a file of one; -1: there is none. */
static long read_number(const char *root, const char *path)
{
    char line[LINE_SIZE];
    char *end;
    if (!amb_file_line(root, path, line, sizeof(line))) {
        return -1;
    }
    long value = strtol(line, &end, 10);
    return end == line ? -1 : value;
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
    if (!find_line(root, "/proc/self/limits", name, line, sizeof(line))) {
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

static void look_at_interface(const char *root, const char *name, json_t *rows)
{
    char path[PATH_SIZE], state[32] = "", check[NAME_SIZE + 16], text[TEXT_SIZE];
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.60s/operstate", name);
    if (!amb_file_line(root, path, state, sizeof(state))) {
        return; /* An RDMA device; or another network namespace's /sys. */
    }
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.60s/speed", name);
    long mbit = read_number(root, path);
    (void)snprintf(path, sizeof(path), "/sys/class/net/%.60s/mtu", name);
    long mtu = read_number(root, path);
    (void)snprintf(check, sizeof(check), "interface %.60s", name);
    if (strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0) {
        (void)snprintf(text, sizeof(text), "%.60s is trusted, and is down", name);
        amb_doctor_find(rows, check, "warning", text,
                        "ip link set it up and see its cable; or take it out of "
                        "transports.trusted");
    } else if (mbit > 0 && mbit < SLOW_MBIT) {
        (void)snprintf(text, sizeof(text), "%.60s is trusted, and has %ld Mb/s", name, mbit);
        amb_doctor_find(rows, check, "warning", text,
                        "see its cable and switch; or trust a faster interface");
    } else if (mbit >= FAST_MBIT && mtu > 0 && mtu < SMALL_MTU) {
        (void)snprintf(text, sizeof(text), "%.60s has %ld Mb/s and packets of %ld bytes", name,
                       mbit, mtu);
        amb_doctor_find(rows, check, "ok", text,
                        "where all of its network can, an MTU of 9000 costs less CPU time");
    } else {
        (void)snprintf(text, sizeof(text), "%.60s is up", name);
        amb_doctor_find(rows, check, "ok", text, "");
    }
}

static void look_at_interfaces(const struct amb_doctor_machine *look, json_t *rows)
{
    if (look->trusted_count == 0) {
        amb_doctor_find(rows, "interfaces", "ok", "no interface is trusted: there are no ucx links",
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
    char check[2 * NAME_SIZE + 16], text[TEXT_SIZE];
    (void)snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports", device);
    size_t count = list(root, folder, ports);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/state", folder, ports[i]);
        bool is_read = amb_file_line(root, path, state, sizeof(state)); /* "4: ACTIVE" */
        bool is_active = is_read && strstr(state, "ACTIVE") != NULL;
        (void)snprintf(check, sizeof(check), "rdma %s:%s", device, ports[i]);
        (void)snprintf(text, sizeof(text), "its port is %s",
                       is_active ? "active"
                       : is_read ? state
                                 : "of no known state");
        amb_doctor_find(rows, check, is_active ? "ok" : "warning", text,
                        is_active ? ""
                                  : "DOWN: see its cable; INIT: an InfiniBand network needs a "
                                    "subnet manager (opensm)");
    }
}

/* The files that RDMA goes by. Where there is none, doctor.c says so. */
static void look_at_verbs(const char *root, json_t *rows)
{
    char names[DEVICES_MAX][NAME_SIZE], path[NAME_SIZE + 32], text[TEXT_SIZE];
    size_t count = list(root, "/dev/infiniband", names);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "/dev/infiniband/%s", names[i]);
        if (strncmp(names[i], "uverbs", strlen("uverbs")) == 0 &&
            !amb_file_may(root, path, R_OK | W_OK)) {
            (void)snprintf(text, sizeof(text), "%s may not be opened by the broker", path);
            amb_doctor_find(rows, "rdma access", "warning", text,
                            "the device's group, or a service manager's list of devices "
                            "(DeviceAllow)");
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
    char text[TEXT_SIZE];
    if (!read_limit(look->root, "Max locked memory", &limit)) {
        return;
    }
    if (limit == UINT64_MAX) {
        amb_doctor_find(rows, "memlock", "ok", "memory may be locked without a limit", "");
        return;
    }
    bool is_short = look->has_rdma && limit < look->memory_bytes + MEMLOCK_SPARE;
    (void)snprintf(text, sizeof(text), "%" PRIu64 " bytes may be locked%s", limit,
                   is_short         ? ", and RDMA locks all of memory.host.size"
                   : look->has_rdma ? ""
                                    : "; nothing here locks memory, as there is no RDMA");
    amb_doctor_find(rows, "memlock", is_short ? "warning" : "ok", text,
                    is_short ? "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 of the "
                               "container, or limits.conf"
                             : "");
}

static void look_at_descriptors(const struct amb_doctor_machine *look, json_t *rows)
{
    uint64_t limit;
    char text[TEXT_SIZE];
    if (!read_limit(look->root, "Max open files", &limit)) {
        return;
    }
    bool is_few = limit <= DESCRIPTORS_FEW;
    (void)snprintf(text, sizeof(text),
                   "%" PRIu64 " descriptors may be open, which is enough for %" PRIu32 " clients",
                   limit, look->connections);
    amb_doctor_find(rows, "descriptors", is_few ? "warning" : "ok", text,
                    is_few ? "LimitNOFILE= in the unit, --ulimit nofile= of the container, or "
                             "ulimit -n"
                           : "");
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
        amb_doctor_find(rows, "/dev/shm", "ok",
                        "no tmpfs is at /dev/shm; rings and segments need none",
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
    amb_doctor_find(rows, "/dev/shm", "ok", text,
                    is_small ? "programs beside the broker (NCCL, PyTorch) may need more: "
                               "--ipc=host or --shm-size"
                             : "");
}

static void look_at_huge_pages(const struct amb_doctor_machine *look, json_t *rows)
{
    char line[LINE_SIZE];
    if (!amb_file_line(look->root, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", line,
                       sizeof(line))) {
        amb_doctor_find(rows, "huge pages", "ok", "this kernel has none for shared memory", "");
        return;
    }
    bool is_on = strstr(line, "[always]") != NULL || strstr(line, "[within_size]") != NULL ||
                 strstr(line, "[force]") != NULL;
    amb_doctor_find(rows, "huge pages", "ok",
                    is_on ? "segments may lie in huge pages"
                          : "segments lie in pages of 4 KiB: the first touch of each costs more",
                    is_on ? ""
                          : "echo within_size > "
                            "/sys/kernel/mm/transparent_hugepage/shmem_enabled, before the broker "
                            "starts");
}

/* Of a container: less than the broker was told to take ends in the kernel killing it. */
static void look_at_memory(const struct amb_doctor_machine *look, json_t *rows)
{
    char line[LINE_SIZE], text[TEXT_SIZE];
    char *end;
    if (!amb_file_line(look->root, "/sys/fs/cgroup/memory.max", line, sizeof(line)) ||
        strcmp(line, "max") == 0) {
        return;
    }
    uint64_t limit = strtoull(line, &end, 10);
    if (end == line || limit >= look->memory_bytes) {
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "the container has %" PRIu64
                   " bytes of memory, and memory.host.size is %" PRIu64,
                   limit, look->memory_bytes);
    amb_doctor_find(rows, "memory", "warning", text,
                    "give the container more (--memory), or lower memory.host.size: the kernel "
                    "ends who takes more");
}

void amb_doctor_look_around(const struct amb_doctor_machine *look, json_t *rows)
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
    if (counters->path[0] != '\0') {
        (void)snprintf(finding, sizeof(finding), "counters lie in %s", counters->path);
        amb_doctor_find(rows, "counters", "ok", finding, "");
        return;
    }
    (void)snprintf(finding, sizeof(finding), "counters are private: %s", counters->why);
    amb_doctor_find(rows, "counters", "warning", finding,
                    "server.counters_file in a folder in memory: then they can be read when the "
                    "broker hangs or has gone");
}
