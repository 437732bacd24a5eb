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

void amb_below_adopt(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
}

/* The parent of the process in a folder of /proc; 0: there is no such process, or it has ended. The
 * name in front may have any character, a parenthesis too. */
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
    char state = 'Z';
    int parent = 0;
    if (end == NULL || sscanf(end, ") %c %d", &state, &parent) != 2 || state == 'Z') {
        return 0;
    }
    return (pid_t)parent;
}

unsigned amb_below_kill(pid_t spared)
{
    unsigned count = 0;
    DIR *proc = opendir("/proc");
    pid_t self = getpid();
    for (const struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        long number = strtol(entry->d_name, NULL, 10);
        if (number > 0 && (pid_t)number != spared &&
            parent_of(dirfd(proc), entry->d_name) == self) {
            (void)kill((pid_t)number,
                       SIGKILL); /* A child's number is its own until it is reaped. */
            count++;
        }
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
    return count;
}

bool amb_below_end(int64_t limit_ns)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    int64_t deadline_ns = amb_clock_monotonic_ns() + limit_ns;
    for (;;) {
        (void)amb_below_kill(0);
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) {
            return true;
        }
        if (amb_clock_monotonic_ns() > deadline_ns) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
}
