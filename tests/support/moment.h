/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long everybody has slept. A thread that works, or waits for a core, does not sleep: so a busy
 * machine is told from a wake-up that does not come.
 * Threads: any. Memory: none.
 */
#pragma once

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

struct moment {
    int64_t worked_ns; /* so long threads of this process and of another one did not sleep */
    int64_t before_ns, after_ns; /* the times around that look */
};

/* Of the living threads of a process; 0 where the system does not say. */
static inline int64_t moment_worked_ns(const char *process)
{
    char path[320];
    int64_t sum_ns = 0;
    (void)snprintf(path, sizeof(path), "/proc/%s/task", process);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        int64_t ran_ns, waited_ns;
        (void)snprintf(path, sizeof(path), "/proc/%s/task/%s/schedstat", process, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file != NULL && fscanf(file, "%" SCNd64 " %" SCNd64, &ran_ns, &waited_ns) == 2) {
            sum_ns += ran_ns + waited_ns;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return sum_ns;
}

static inline int64_t moment_time_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline void moment_sleep_until(int64_t at_ns)
{
    struct timespec ts = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0) {
    }
}

/* other: a process, by its number, or NULL. */
static inline struct moment moment_now(const char *other)
{
    struct moment now = {.before_ns = moment_time_ns()};
    now.worked_ns = moment_worked_ns("self") + (other != NULL ? moment_worked_ns(other) : 0);
    now.after_ns = moment_time_ns();
    return now;
}

/* So long at least everybody slept between the two. No thread has ended meanwhile. */
static inline int64_t moment_asleep_ns(struct moment begin, struct moment end)
{
    int64_t asleep_ns = end.before_ns - begin.after_ns - (end.worked_ns - begin.worked_ns);
    return asleep_ns > 0 ? asleep_ns : 0;
}
