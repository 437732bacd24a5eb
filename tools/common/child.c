/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/child.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t amb_child_fork(int death_signal, int *fd)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t parent = getpid();
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, death_signal);
        if (getppid() != parent) {
            _exit(127); /* It has ended in between. */
        }
        *fd = fds[1];
        return 0;
    }
    (void)close(fds[1]);
    if (pid < 0) {
        (void)close(fds[0]);
        return -1;
    }
    *fd = fds[0];
    return pid;
}
