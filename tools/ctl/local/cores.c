/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/cores.h"

#include "wire/base/file.h"

#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LIST_MAX 4096u
#define NODES_MAX 1024

/* Only what a PCI address can have: it becomes part of a path. sysfs has small letters. */
static bool is_address(const char *pci, char *out, size_t size)
{
    size_t len = strlen(pci);
    if (len == 0 || len >= size || strspn(pci, "0123456789abcdefABCDEF:.") != len ||
        strstr(pci, "..") != NULL) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        out[i] = (char)tolower((unsigned char)pci[i]);
    }
    return true;
}

bool amb_local_cores_near(const char *sysfs, const char *pci, struct amb_local_cores *out)
{
    static uint16_t numbers[AMB_CPUS_MAX];
    char address[32], path[PATH_MAX], text[LIST_MAX];
    unsigned count = 0;
    int node = -1;
    if (!is_address(pci, address, sizeof(address))) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", sysfs, address);
    if (!amb_file_line("", path, text, sizeof(text)) || sscanf(text, "%d", &node) != 1 ||
        node < 0 || node >= NODES_MAX) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sysfs, node);
    if (!amb_file_line("", path, text, sizeof(text)) ||
        amb_cpus_parse(text, numbers, AMB_CPUS_MAX, &count) != NULL) {
        return false; /* A node of memory alone has an empty list. */
    }
    memset(out, 0, sizeof(*out));
    out->node = node;
    for (unsigned i = 0; i < count; i++) {
        amb_cpus_add(&out->cpus, numbers[i]);
    }
    return true;
}

bool amb_local_cores_keep_allowed(struct amb_local_cores *cores)
{
    struct amb_cpus allowed, both = {{0}};
    if (!amb_cpus_allowed(&allowed)) {
        return true; /* The system says more when it is asked to run there. */
    }
    for (unsigned i = 0; i < AMB_CPUS_MAX / 64; i++) {
        both.bits[i] = cores->cpus.bits[i] & allowed.bits[i];
    }
    if (amb_cpus_count(&both) == 0) {
        return false;
    }
    cores->cpus = both;
    return true;
}

bool amb_local_cores_use(const struct amb_local_cores *cores)
{
    return sched_setaffinity(0, sizeof(cores->cpus.bits),
                             (const cpu_set_t *)(const void *)cores->cpus.bits) == 0;
}
