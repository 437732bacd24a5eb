/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define VISIBLE_MAX (AMB_LOCAL_GPUS_MAX * (AMB_LOCAL_UUID_MAX + 1))
#define NOT_FOUND 127 /* as a shell says it */
#define NOT_RUN 126

void amb_rank_url(const struct amb_local *local, char *out, size_t size)
{
    (void)snprintf(out, size, "unix://%s/broker.sock", local->folder);
}

static void set_number(const char *name, unsigned value)
{
    char text[12];
    (void)snprintf(text, sizeof(text), "%u", value);
    (void)setenv(name, text, 1);
}

static void set_environment(const struct amb_rank_start *start)
{
    char url[AMB_FOLDER_MAX + 32], visible[VISIBLE_MAX];
    const struct amb_local_gpus *gpus = start->gpus;
    amb_rank_url(start->local, url, sizeof(url));
    (void)setenv("AMB_URL", url, 1);
    set_number("AMB_RANK", start->rank);
    set_number("AMB_SIZE", start->count);
    (void)unsetenv("AMB_DEVICE"); /* Another one's. */
    if (gpus->count > 0) {
        unsigned first = start->rank % gpus->count;
        amb_local_gpus_ring(gpus, first, gpus->count, visible, sizeof(visible));
        (void)setenv("AMB_DEVICE", gpus->items[first].uuid, 1);
        (void)setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    }
}

static void become(const struct amb_rank_start *start, pid_t parent, int out_fd, int err_fd)
{
    char *const *command = start->local->command;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(NOT_RUN); /* It has ended in between. */
    }
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(out_fd, STDOUT_FILENO);
    (void)dup2(err_fd, STDERR_FILENO);
    set_environment(start);
    if (start->cores != NULL && !amb_local_cores_use(start->cores)) {
        (void)dprintf(STDERR_FILENO, "runs on any core, not on those of node %d: %s\n",
                      start->cores->node, strerror(errno));
    }
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGTTOU, start->local->is_ttou_ignored ? SIG_IGN : SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &start->local->mask, NULL);
    (void)execvp(command[0], command);
    int error = errno;
    (void)dprintf(STDERR_FILENO, "%s: %s\n", command[0], strerror(error));
    _exit(error == ENOENT ? NOT_FOUND : NOT_RUN);
}

pid_t amb_rank_start(const struct amb_rank_start *start, int *out_fd, int *err_fd)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0) {
        return -1;
    }
    if (pipe2(err, O_CLOEXEC) != 0) {
        (void)close(out[0]);
        (void)close(out[1]);
        return -1;
    }
    pid_t parent = getpid();
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        become(start, parent, out[1], err[1]);
    }
    (void)close(out[1]);
    (void)close(err[1]);
    if (pid < 0) {
        (void)close(out[0]);
        (void)close(err[0]);
        return -1;
    }
    (void)setpgid(pid,
                  pid); /* Here too: a signal to the group may come before the child does it. */
    *out_fd = out[0];
    *err_fd = err[0];
    return pid;
}
