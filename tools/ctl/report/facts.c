/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/report/facts.h"

#include "wire/base/file.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PATH_BYTES 512u
#define LINE_BYTES 512u

/* JSON is UTF-8, and a file may be in something else. */
static json_t *string_of(const char *text)
{
    json_t *value = json_string(text);
    return value == NULL ? json_string("(no UTF-8)") : value;
}

static void set_text(json_t *object, const char *key, const char *text)
{
    (void)json_object_set_new(object, key, string_of(text));
}

/* ---- whole files of a kernel ---- */

/* The first line of each, under a key of its own. */
static json_t *lines_of(const char *root)
{
    static const struct {
        const char *key, *path;
    } files[] = {
        {"clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
        {"processors_online", "/sys/devices/system/cpu/online"},
        {"shmem_huge_pages", "/sys/kernel/mm/transparent_hugepage/shmem_enabled"},
        {"huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"},
        {"overcommit", "/proc/sys/vm/overcommit_memory"},
        {"load", "/proc/loadavg"},
        {"uptime", "/proc/uptime"},
        {"pressure_cpu", "/proc/pressure/cpu"},
        {"pressure_memory", "/proc/pressure/memory"},
        {"cgroup_memory_max", "/sys/fs/cgroup/memory.max"},
        {"cgroup_cpu_max", "/sys/fs/cgroup/cpu.max"},
        {"cgroup_pids_max", "/sys/fs/cgroup/pids.max"},
        {"nvidia_driver", "/proc/driver/nvidia/version"},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char line[LINE_BYTES];
        if (amb_file_line(root, files[i].path, line, sizeof(line))) {
            set_text(object, files[i].key, line);
        }
    }
    return object;
}

/* The lines of a file of the kernel, or those with one of the words, as an array. NULL: there are
 * none. */
static json_t *all_lines(const char *root, const char *path, const char *const *words)
{
    char whole[PATH_BYTES], line[LINE_BYTES];
    (void)snprintf(whole, sizeof(whole), "%s%s", root, path);
    FILE *file = fopen(whole, "re");
    if (file == NULL) {
        return NULL;
    }
    json_t *lines = json_array();
    while (fgets(line, sizeof(line), file) != NULL) {
        bool is_wanted = words == NULL;
        for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
            is_wanted = is_wanted || strncmp(line, words[i], strlen(words[i])) == 0;
        }
        line[strcspn(line, "\n")] = '\0';
        if (is_wanted) {
            (void)json_array_append_new(lines, string_of(line));
        }
    }
    (void)fclose(file);
    return lines;
}

static void set_lines(json_t *object, const char *key, const char *root, const char *path,
                      const char *const *words)
{
    json_t *lines = all_lines(root, path, words);
    if (lines != NULL) {
        (void)json_object_set_new(object, key, lines);
    }
}

/* ---- the machine ---- */

static json_t *kernel(void)
{
    struct utsname name;
    if (uname(&name) != 0) {
        return json_object();
    }
    json_t *object = json_object(); /* Without the name of the machine. */
    set_text(object, "system", name.sysname);
    set_text(object, "release", name.release);
    set_text(object, "version", name.version);
    set_text(object, "machine", name.machine);
    return object;
}

static json_t *processors(const char *root)
{
    static const char *const words[] = {"model name", NULL};
    cpu_set_t set;
    json_t *object =
        json_pack("{s:I, s:I}", "configured", (json_int_t)sysconf(_SC_NPROCESSORS_CONF), "online",
                  (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        (void)json_object_set_new(object, "this_program_may_use", json_integer(CPU_COUNT(&set)));
    }
    json_t *models = all_lines(root, "/proc/cpuinfo", words);
    if (json_array_size(models) > 0) {
        (void)json_object_set(object, "model", json_array_get(models, 0));
    }
    json_decref(models);
    return object;
}

static json_t *memory(const char *root)
{
    static const char *const words[] = {
        "MemTotal", "MemFree",      "MemAvailable", "Shmem",          "SwapTotal", "SwapFree",
        "Mlocked",  "Committed_AS", "HugePages_",   "ShmemHugePages", NULL};
    json_t *lines = all_lines(root, "/proc/meminfo", words);
    return lines == NULL ? json_array() : lines;
}

/* ---- a process ---- */

/* Of a broker on this machine, as far as this user may look. Its command line and its environment
 * may have secrets, and are left alone. */
static json_t *process(const char *root, int64_t pid)
{
    static const char *const words[] = {"Name",
                                        "State",
                                        "Threads",
                                        "VmPeak",
                                        "VmSize",
                                        "VmLck",
                                        "VmHWM",
                                        "VmRSS",
                                        "RssShmem",
                                        "CapEff",
                                        "FDSize",
                                        "Seccomp",
                                        "Cpus_allowed_list",
                                        NULL};
    char path[PATH_BYTES];
    json_t *object = json_object();
    (void)snprintf(path, sizeof(path), "/proc/%lld/status", (long long)pid);
    set_lines(object, "status", root, path, words);
    (void)snprintf(path, sizeof(path), "/proc/%lld/limits", (long long)pid);
    set_lines(object, "limits", root, path, NULL);
    return object;
}

/* ---- variables ---- */

static int compare(const void *a, const void *b)
{
    const json_t *one = *(json_t *const *)a, *two = *(json_t *const *)b;
    return strcmp(json_string_value(one), json_string_value(two));
}

/* Names alone: a value may be a secret. */
static json_t *variables(const char *const *environment)
{
    static const char *const begins[] = {"AMB_",      "UCX_",           "CUDA_",
                                         "NVIDIA_",   "LD_PRELOAD",     "NOTIFY_SOCKET",
                                         "WATCHDOG_", "XDG_CONFIG_HOME"};
    json_t *sorted[256];
    size_t count = 0;
    for (size_t i = 0; environment != NULL && environment[i] != NULL && count < 256; i++) {
        for (size_t j = 0; j < sizeof(begins) / sizeof(begins[0]); j++) {
            if (strncmp(environment[i], begins[j], strlen(begins[j])) == 0) {
                json_t *name = json_stringn(environment[i], strcspn(environment[i], "="));
                sorted[count] = name;
                count += name != NULL;
                break;
            }
        }
    }
    qsort(sorted, count, sizeof(json_t *), compare);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(array, sorted[i]);
    }
    return array;
}

json_t *amb_facts_of(const char *root, int64_t pid, const char *const *environment)
{
    static const char *const words[] = {"PRETTY_NAME", "ID=", "VERSION_ID", NULL};
    json_t *object = json_object();
    (void)json_object_set_new(object, "kernel", kernel());
    set_lines(object, "distribution", root, "/etc/os-release", words);
    (void)json_object_set_new(object, "processors", processors(root));
    (void)json_object_set_new(object, "memory", memory(root));
    (void)json_object_set_new(object, "files", lines_of(root));
    set_lines(object, "limits_of_broker_ctl", root, "/proc/self/limits", NULL);
    (void)json_object_set_new(object, "variables", variables(environment));
    if (pid > 0) {
        (void)json_object_set_new(object, "broker", process(root, pid));
    }
    return object;
}
