/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/doctor/doctor_cpu.h"

#include "wire/base/cpus.h"
#include "wire/base/file.h"
#include "wire/doctor/checks.h"
#include "wire/doctor/host.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 512u
#define GROUPS_SIZE 8192u
#define LINE_SIZE 512u
#define TEXT_SIZE 160u
#define NUMBER_SIZE 24u
#define CLOCK_READINGS 100000u /* a clock that has not moved by then stands */

static const char *text_of(unsigned value, char out[NUMBER_SIZE])
{
    (void)snprintf(out, NUMBER_SIZE, "%u", value);
    return out;
}

/* The share of the control groups in thousandths of a processor; UINT_MAX: no quota. */
static unsigned quota_of(const char *root)
{
    char path[PATH_SIZE], groups[GROUPS_SIZE];
    (void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return UINT_MAX;
    }
    size_t len = fread(groups, 1, sizeof(groups) - 1, file);
    (void)fclose(file);
    groups[len] = '\0';
    (void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup", root);
    return amb_cpus_quota(groups, path);
}

static void look_at_quota(const struct amb_doctor_cpu *look, json_t *rows)
{
    char limit[NUMBER_SIZE], workers[NUMBER_SIZE];
    unsigned share = quota_of(look->root);
    if (share == UINT_MAX || look->workers <= amb_cpus_begun(share)) {
        return;
    }
    (void)snprintf(limit, sizeof(limit), "%u.%u", share / AMB_CPUS_ONE,
                   share % AMB_CPUS_ONE * 10 / AMB_CPUS_ONE);
    amb_doctor_find(rows, AMB_DOCTOR_CPU_QUOTA, "limit", limit, "workers",
                    text_of(look->workers, workers), NULL);
}

static void look_at_affinity(const struct amb_doctor_cpu *look, json_t *rows)
{
    static const char key[] = "Cpus_allowed_list:";
    char line[LINE_SIZE], limit[NUMBER_SIZE], workers[NUMBER_SIZE], text[TEXT_SIZE];
    if (!amb_doctor_line(look->root, "/proc/self/status", key, line, sizeof(line))) {
        return;
    }
    const char *list = line + strlen(key);
    list += strspn(list, " \t");
    unsigned count = amb_cpus_listed(list);
    if (count == 0) {
        return;
    }
    if (look->workers > count) {
        amb_doctor_find(rows, AMB_DOCTOR_CPU_AFFINITY, "limit", text_of(count, limit), "list", list,
                        "workers", text_of(look->workers, workers), NULL);
        return;
    }
    (void)snprintf(text, sizeof(text), "%u of them, on %u processors", look->workers, count);
    amb_doctor_well(rows, "workers", text, "");
}

/* ---- the clock ---- */

/* Sources that no process can read without a system call. */
static bool is_slow(const char *source)
{
    static const char *const slow[] = {"acpi_pm",
                                       "hpet",
                                       "hyperv_clocksource_msr",
                                       "jiffies",
                                       "pit",
                                       "refined-jiffies",
                                       "hyperv_clocksource",
                                       "xen"};
    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
        if (strcmp(source, slow[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_frozen(int64_t (*now_ns)(void))
{
    int64_t first_ns = now_ns();
    for (unsigned i = 0; i < CLOCK_READINGS; i++) {
        if (now_ns() != first_ns) {
            return false;
        }
    }
    return true;
}

static void look_at_clock(const struct amb_doctor_cpu *look, json_t *rows)
{
    char source[64], text[TEXT_SIZE], workers[NUMBER_SIZE];
    (void)text_of(look->workers, workers);
    if (is_frozen(look->now_ns)) {
        amb_doctor_find(rows, AMB_DOCTOR_CLOCK_FROZEN, "workers", workers, NULL);
    }
    if (!amb_file_line(look->root,
                       "/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                       sizeof(source))) {
        return;
    }
    if (is_slow(source)) {
        amb_doctor_find(rows, AMB_DOCTOR_CLOCK_SLOW, "source", source, "workers", workers, NULL);
        return;
    }
    (void)snprintf(text, sizeof(text), "the clock source is %s", source);
    amb_doctor_well(rows, "clock", text, "");
}

void amb_doctor_cpu(const struct amb_doctor_cpu *look, json_t *rows)
{
    look_at_quota(look, rows);
    look_at_affinity(look, rows);
    look_at_clock(look, rows);
}
