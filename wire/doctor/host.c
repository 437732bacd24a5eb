/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/doctor/host.h"

#include "wire/base/file.h"
#include "wire/doctor/checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT_ENV "AMB_DOCTOR_ROOT"
#define PATH_SIZE 512u
#define LINE_SIZE 256u
#define LINES_MAX 4096u
#define MINORS_MAX 64u
#define ENVIRONMENT_MAX ((size_t)1 << 20) /* bytes that are looked at */

const char *amb_doctor_root(void)
{
    const char *root = secure_getenv(ROOT_ENV);
    return root != NULL ? root : "";
}

bool amb_doctor_line(const char *root, const char *path, const char *start, char *out, size_t size)
{
    char full[PATH_SIZE];
    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    FILE *file = fopen(full, "re");
    bool is_found = false;
    for (unsigned i = 0; file != NULL && !is_found && i < LINES_MAX; i++) {
        if (fgets(out, (int)size, file) == NULL) {
            break;
        }
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

long amb_doctor_number(const char *root, const char *path)
{
    char line[LINE_SIZE];
    char *end;
    if (!amb_file_line(root, path, line, sizeof(line))) {
        return -1;
    }
    long value = strtol(line, &end, 10);
    return end == line || value < 0 ? -1 : value;
}

/* ---- the GPU driver ---- */

bool amb_doctor_driver(const char *root, char *out, size_t size)
{
    return amb_file_line(root, "/proc/driver/nvidia/version", out, size);
}

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
        bool is_there = amb_file_may(root, out, F_OK);
        gpus += is_there;
        if (is_there && !amb_file_may(root, out, mode)) {
            return true;
        }
    }
    (void)snprintf(out, 32, "/dev/nvidia0");
    return gpus == 0;
}

bool amb_doctor_devices(const char *root, json_t *rows)
{
    char device[32];
    if (find_obstacle(root, F_OK, device)) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_HIDDEN, "device", device, NULL);
        return true;
    }
    /* A service manager's list of devices answers here too. */
    if (find_obstacle(root, R_OK | W_OK, device)) {
        amb_doctor_find(rows, AMB_DOCTOR_GPU_CLOSED, "device", device, NULL);
        return true;
    }
    return false;
}

/* ---- the environment ---- */

/* The bytes of a file, at most ENVIRONMENT_MAX; for free(). NULL: it cannot be read. */
static char *read_all(const char *path, size_t *len)
{
    FILE *file = fopen(path, "re");
    char *bytes = file != NULL ? malloc(ENVIRONMENT_MAX + 1) : NULL;
    if (bytes != NULL) {
        *len = fread(bytes, 1, ENVIRONMENT_MAX, file);
        bytes[*len] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return bytes;
}

enum amb_doctor_found amb_doctor_environment(const char *root, const char *name, char *out,
                                             size_t size)
{
    char path[PATH_SIZE];
    size_t len = 0, name_len = strlen(name);
    (void)snprintf(path, sizeof(path), "%s/proc/self/environ", root);
    char *bytes = read_all(path, &len);
    if (bytes == NULL) {
        return AMB_DOCTOR_NO_ANSWER;
    }
    enum amb_doctor_found found = AMB_DOCTOR_UNSET;
    for (size_t at = 0; at < len && found == AMB_DOCTOR_UNSET; at += strlen(bytes + at) + 1) {
        if (strncmp(bytes + at, name, name_len) == 0 && bytes[at + name_len] == '=') {
            (void)snprintf(out, size, "%s", bytes + at + name_len + 1);
            for (char *c = out; *c != '\0'; c++) { /* Anybody's words. */
                *c = (char)(*c >= ' ' && *c <= '~' ? *c : '?');
            }
            found = AMB_DOCTOR_SET;
        }
    }
    free(bytes);
    return found;
}

const char *amb_doctor_variable(size_t index, const char **but)
{
    static const struct {
        const char *name, *but;
    } ignored[] = {{"UCX_TLS", ", but for cuda_ipc"},
                   {"UCX_NET_DEVICES", ""},
                   {"UCX_TCP_PORT_RANGE", ""},
                   {"UCX_TCP_TX_SEG_SIZE", ""},
                   {"UCX_TCP_RX_SEG_SIZE", ""}};
    if (index >= sizeof(ignored) / sizeof(ignored[0])) {
        return NULL;
    }
    *but = ignored[index].but;
    return ignored[index].name;
}

void amb_doctor_variables(const char *root, json_t *rows)
{
    const char *name, *but;
    char value[LINE_SIZE];
    for (size_t i = 0; (name = amb_doctor_variable(i, &but)) != NULL; i++) {
        if (amb_doctor_environment(root, name, value, sizeof(value)) == AMB_DOCTOR_SET) {
            amb_doctor_find(rows, AMB_DOCTOR_UCX_VARIABLES, "name", name, "but", but, NULL);
        }
    }
}

/* ---- namespaces ---- */

uint64_t amb_doctor_namespace(const char *root, pid_t pid, const char *kind)
{
    char path[PATH_SIZE], link[64];
    if (pid > 0) {
        (void)snprintf(path, sizeof(path), "%s/proc/%d/ns/%s", root, (int)pid, kind);
    } else {
        (void)snprintf(path, sizeof(path), "%s/proc/self/ns/%s", root, kind);
    }
    ssize_t len = readlink(path, link, sizeof(link) - 1);
    if (len <= 0) {
        return 0;
    }
    link[len] = '\0';
    const char *number = strchr(link, '['); /* "pid:[4026531836]" */
    return number == NULL ? 0 : strtoull(number + 1, NULL, 10);
}
