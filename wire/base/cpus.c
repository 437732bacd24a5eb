/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_MAX 8192u /* bytes of /proc/self/cgroup that are looked at */
#define PATH_LENGTH_MAX 1024u
#define ONLINE_MAX 4096u /* bytes of the list of processors that are online */

unsigned amb_cpus_count(const struct amb_cpus *cpus)
{
    unsigned count = 0;
    for (unsigned i = 0; i < AMB_CPUS_MAX / 64; i++) {
        count += (unsigned)__builtin_popcountll(cpus->bits[i]);
    }
    return count;
}

bool amb_cpus_allowed(struct amb_cpus *out)
{
    memset(out, 0, sizeof(*out));
    return sched_getaffinity(0, sizeof(out->bits), (cpu_set_t *)(void *)out->bits) == 0;
}

bool amb_cpus_bind(unsigned cpu)
{
    struct amb_cpus one = {{0}};
    if (cpu >= AMB_CPUS_MAX) {
        return false;
    }
    amb_cpus_add(&one, cpu);
    return sched_setaffinity(0, sizeof(one.bits), (const cpu_set_t *)(const void *)one.bits) == 0;
}

/* Quotas -------------------------------------------------------------------------------------- */

/* A whole small file as text. False: it is not there, or not to be read. */
static bool file_read(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t len = 0;
    ssize_t got;
    while (len + 1 < size && (got = read(fd, out + len, size - 1 - len)) != 0) {
        if (got < 0 && errno != EINTR) {
            break;
        }
        len += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    out[len] = '\0';
    return len > 0;
}

/* Thousandths of a processor. */
static unsigned share_of(long long quota, long long period)
{
    const long long most = (long long)AMB_CPUS_MAX * AMB_CPUS_ONE;
    if (quota <= 0 || period <= 0) {
        return UINT_MAX;
    }
    if (quota / period >= AMB_CPUS_MAX || quota > LLONG_MAX / AMB_CPUS_ONE) {
        return (unsigned)most;
    }
    long long share = quota * AMB_CPUS_ONE / period;
    return share < 1 ? 1 : (unsigned)share;
}

static bool folder_read(const char *folder, const char *name, char *out, size_t size)
{
    char path[PATH_LENGTH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return file_read(path, out, size);
}

/* Of one group: version 2 has one file, version 1 two. "max" and -1 are no quota. */
static unsigned folder_quota(const char *folder)
{
    char quota[64], period[64];
    if (folder_read(folder, "cpu.max", quota, sizeof(quota))) {
        char *rest;
        long long us = strtoll(quota, &rest, 10);
        return share_of(us, strtoll(rest, NULL, 10));
    }
    if (folder_read(folder, "cpu.cfs_quota_us", quota, sizeof(quota)) &&
        folder_read(folder, "cpu.cfs_period_us", period, sizeof(period))) {
        return share_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
    }
    return UINT_MAX;
}

/* The least of a group and all above it. In a container the path may be one that the host
 * alone has. The folder that is mounted as the root of all is the container's own then. */
static unsigned path_quota(const char *mount, const char *group)
{
    char folder[PATH_LENGTH_MAX];
    size_t base = strlen(mount);
    int len = snprintf(folder, sizeof(folder), "%s%s", mount, group);
    if (len < 0 || (size_t)len >= sizeof(folder) || strstr(group, "..") != NULL) {
        (void)snprintf(folder, sizeof(folder), "%s", mount);
    }
    unsigned least = UINT_MAX;
    for (;;) {
        unsigned here = folder_quota(folder);
        least = here < least ? here : least;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < base) {
            return least;
        }
        *slash = '\0';
    }
}

/* Is "cpu" one of the controllers of a line of version 1, "cpu,cpuacct"? */
static bool names_cpu(const char *controllers, size_t len)
{
    for (const char *at = controllers, *end = controllers + len; at < end;) {
        size_t word = strcspn(at, ",:");
        if (word == 3 && strncmp(at, "cpu", 3) == 0) {
            return true;
        }
        at += word + 1;
    }
    return false;
}

unsigned amb_cpus_quota(const char *groups, const char *root)
{
    unsigned least = UINT_MAX;
    for (const char *line = groups; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *controllers = memchr(line, ':', len);
        const char *group = controllers == NULL ? NULL
                                                : memchr(controllers + 1, ':',
                                                         len - (size_t)(controllers + 1 - line));
        if (group != NULL) {
            char mount[PATH_LENGTH_MAX], path[PATH_LENGTH_MAX];
            size_t names = (size_t)(group - controllers - 1);
            (void)snprintf(path, sizeof(path), "%.*s", (int)(line + len - group - 1), group + 1);
            if (names == 0) { /* version 2 */
                unsigned here = path_quota(root, path);
                least = here < least ? here : least;
            } else if (names_cpu(controllers + 1, names)) {
                (void)snprintf(mount, sizeof(mount), "%s/%.*s", root, (int)names, controllers + 1);
                unsigned here = path_quota(mount, path);
                least = here < least ? here : least;
            }
        }
        line += len + (line[len] == '\n');
    }
    return least;
}

/* Lists --------------------------------------------------------------------------------------- */

/* Digits alone, up to the last processor that there can be. */
static bool cpu_parse(const char **at, unsigned *out)
{
    if (**at < '0' || **at > '9') {
        return false;
    }
    unsigned value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (unsigned)(**at - '0');
        if (value >= AMB_CPUS_MAX) {
            return false;
        }
    }
    *out = value;
    return true;
}

const char *amb_cpus_parse(const char *text, uint16_t *out, unsigned max, unsigned *count)
{
    struct amb_cpus seen = {{0}};
    const char *at = text;
    *count = 0;
    for (;;) {
        unsigned first, last;
        if (!cpu_parse(&at, &first)) {
            return "not a list of processors";
        }
        last = first;
        if (*at == '-') {
            at++;
            if (!cpu_parse(&at, &last) || last < first) {
                return "not a list of processors";
            }
        }
        for (unsigned cpu = first; cpu <= last; cpu++) {
            if (amb_cpus_has(&seen, cpu)) {
                return "a processor is there twice";
            }
            if (*count == max) {
                return "too many processors";
            }
            amb_cpus_add(&seen, cpu);
            out[(*count)++] = (uint16_t)cpu;
        }
        if (*at == '\0') {
            return NULL;
        }
        if (*at++ != ',') {
            return "not a list of processors";
        }
    }
}

unsigned amb_cpus_listed(const char *text)
{
    unsigned count = 0;
    for (const char *at = text;; at++) {
        unsigned first, last;
        if (!cpu_parse(&at, &first)) {
            return 0;
        }
        last = first;
        if (*at == '-') {
            at++;
            if (!cpu_parse(&at, &last) || last < first) {
                return 0;
            }
        }
        count += last - first + 1;
        if (*at != ',') {
            return *at == '\n' || *at == '\0' ? count : 0;
        }
    }
}

const char *amb_cpus_format(const struct amb_cpus *cpus, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned cpu = 0; cpu < AMB_CPUS_MAX; cpu++) {
        if (!amb_cpus_has(cpus, cpu)) {
            continue;
        }
        unsigned last = cpu;
        while (amb_cpus_has(cpus, last + 1)) {
            last++;
        }
        char range[32];
        int wrote = last == cpu
                        ? snprintf(range, sizeof(range), "%s%u", len > 0 ? "," : "", cpu)
                        : snprintf(range, sizeof(range), "%s%u-%u", len > 0 ? "," : "", cpu, last);
        if (len + (size_t)wrote + 4 > size) {
            (void)snprintf(out + len, size - len, "...");
            return out;
        }
        memcpy(out + len, range, (size_t)wrote + 1);
        len += (size_t)wrote;
        cpu = last;
    }
    return out;
}

/* This process ----------------------------------------------------------------------------------
 */

/* Of this process. */
static unsigned own_quota(void)
{
    char groups[GROUPS_MAX];
    return file_read("/proc/self/cgroup", groups, sizeof(groups))
               ? amb_cpus_quota(groups, "/sys/fs/cgroup")
               : UINT_MAX;
}

unsigned amb_cpus_usable(void)
{
    struct amb_cpus cpus;
    unsigned count = amb_cpus_allowed(&cpus) ? amb_cpus_count(&cpus) : 1;
    unsigned whole = amb_cpus_whole(own_quota());
    return whole < count ? whole : count;
}

unsigned amb_cpus_around(void)
{
    char list[ONLINE_MAX];
    unsigned count =
        file_read("/sys/devices/system/cpu/online", list, sizeof(list)) ? amb_cpus_listed(list) : 0;
    if (count == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 1 ? (unsigned)online : 1;
    }
    unsigned begun = amb_cpus_begun(own_quota());
    return begun < count ? begun : count;
}
