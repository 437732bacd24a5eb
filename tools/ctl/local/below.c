/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/below.h"

#include "wire/base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS (2 * AMB_NS_PER_MS)
#define LIMITS 10 /* at most so many times the limit, where children end and others come */

void amb_below_adopt(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
}

/* The parent of the process in a folder of /proc; 0: there is no such process. The name in front
 * may have any character, a parenthesis too. The state tells little: a process whose first thread
 * has ended is a zombie there, though others of its threads run. */
static pid_t parent_of(int proc, const char *number)
{
    char path[32], text[512];
    (void)snprintf(path, sizeof(path), "%.20s/stat", number);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    const char *end = strrchr(text, ')');
    int parent = 0;
    if (end == NULL || sscanf(end, ") %*c %d", &parent) != 1) {
        return 0;
    }
    return (pid_t)parent;
}

/* The next child; 0: there are no more. */
static pid_t next_child(DIR *proc)
{
    pid_t self = getpid();
    for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        long number = strtol(entry->d_name, NULL, 10);
        if (number > 0 && parent_of(dirfd(proc), entry->d_name) == self) {
            return (pid_t)number;
        }
    }
    return 0;
}

bool amb_below_look(struct amb_below_spared *out)
{
    bool is_all = true;
    DIR *proc = opendir("/proc");
    *out = (struct amb_below_spared){0};
    if (proc == NULL) {
        return false;
    }
    for (pid_t child; is_all && (child = next_child(proc)) != 0;) {
        is_all = out->count < AMB_BELOW_SPARED_MAX;
        if (is_all) {
            out->pids[out->count++] = child;
        }
    }
    (void)closedir(proc);
    return is_all;
}

/* Its place in the list; behind the last one: it is not there. */
static unsigned place_of(const struct amb_below_spared *spared, pid_t pid)
{
    unsigned i = 0;
    while (i < spared->count && spared->pids[i] != pid) {
        i++;
    }
    return i;
}

static bool is_spared(const struct amb_below_spared *spared, pid_t pid)
{
    return spared != NULL && place_of(spared, pid) < spared->count;
}

unsigned amb_below_kill(const struct amb_below_spared *spared)
{
    unsigned count = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        return 1;
    }
    for (pid_t child; (child = next_child(proc)) != 0;) {
        if (!is_spared(spared, child)) {
            (void)kill(child, SIGKILL); /* A child's number is its own until it is reaped. */
            count++;
        }
    }
    (void)closedir(proc);
    return count;
}

/* Its number may be another's from here on. */
static void forget(struct amb_below_spared *spared, pid_t pid)
{
    if (is_spared(spared, pid)) {
        spared->pids[place_of(spared, pid)] = spared->pids[spared->count - 1];
        spared->count--;
    }
}

bool amb_below_end(struct amb_below_spared *spared, int64_t limit_ns)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    int64_t deadline_ns = amb_clock_monotonic_ns() + limit_ns;
    int64_t last_ns = deadline_ns + (LIMITS - 1) * limit_ns;
    for (;;) {
        bool spares = spared != NULL && spared->count > 0;
        bool has_none = amb_below_kill(spared) == 0;
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
            forget(spared, pid);
            deadline_ns = amb_clock_monotonic_ns() + limit_ns; /* They do end. */
        }
        if ((has_none && spares) || (pid < 0 && errno == ECHILD)) {
            return true;
        }
        int64_t now_ns = amb_clock_monotonic_ns();
        if (now_ns > deadline_ns || now_ns > last_ns) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
}
