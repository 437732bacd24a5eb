/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/proc.h"

#include "wire/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int64_t amb_proc_cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec ts;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) != 0) {
        return 0;
    }
    return (int64_t)ts.tv_sec * AMB_NS_PER_SEC + ts.tv_nsec;
}

void amb_proc_memory(pid_t pid, struct amb_proc_memory *out)
{
    char path[64];
    char line[256];
    *out = (struct amb_proc_memory){0};
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = pid > 0 ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t kib;
        if (sscanf(line, "VmHWM: %" SCNu64, &kib) == 1) {
            out->peak_rss_bytes = kib << 10;
        } else if (sscanf(line, "VmRSS: %" SCNu64, &kib) == 1) {
            out->rss_bytes = kib << 10;
        } else if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1) {
            out->anon_bytes = kib << 10;
        }
    }
    (void)fclose(file);
}

int64_t amb_proc_machine_busy_ns(void)
{
    uint64_t t[8] = {0};
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL) {
        return 0;
    }
    int n = fscanf(file,
                   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
    (void)fclose(file);
    /* user, nice, system, stolen */
    return n == 8 ? (int64_t)(t[0] + t[1] + t[2] + t[7]) * (AMB_NS_PER_SEC / sysconf(_SC_CLK_TCK))
                  : 0;
}
