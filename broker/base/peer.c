/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/base/peer.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#define PEER_P_PIDFD ((idtype_t)3) /* P_PIDFD; older C libraries do not name it */

static int kernel_pidfd(int connection)
{
    int fd = -1;
    socklen_t len = sizeof(fd);
    return getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0 ? fd : -1;
}

bool amb_peer_kernel_tells(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    int fd = kernel_pidfd(pair[0]);
    (void)close(pair[0]);
    (void)close(pair[1]);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

int amb_peer_pidfd(int connection, pid_t pid)
{
    int fd = kernel_pidfd(connection);
    if (fd < 0 && pid > 0) {
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    return fd;
}

bool amb_peer_process(int connection, int *pidfd)
{
    *pidfd = kernel_pidfd(connection);
    /* Kernels before 6.16 have none for a process that was waited for. */
    return *pidfd >= 0 || errno == ESRCH || errno == EINVAL;
}

enum amb_peer_state amb_peer_state(int connection)
{
    struct pollfd end = {.events = POLLIN};
    if (!amb_peer_process(connection, &end.fd)) {
        return AMB_PEER_UNKNOWN;
    }
    if (end.fd < 0) {
        return AMB_PEER_GONE;
    }
    int ended = poll(&end, 1, 0);
    (void)close(end.fd);
    return ended == 0 ? AMB_PEER_LIVES : ended > 0 ? AMB_PEER_GONE : AMB_PEER_UNKNOWN;
}

bool amb_peer_is_pidfd(int fd)
{
    siginfo_t unused;
    if (fd < 0) {
        return false;
    }
    return waitid(PEER_P_PIDFD, (id_t)fd, &unused, WEXITED | WNOHANG | WNOWAIT) == 0 ||
           errno != EBADF;
}
