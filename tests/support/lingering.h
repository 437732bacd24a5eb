/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket that takes 60 s to close, passed to somebody: a TCP connection with a full send queue
 * and SO_LINGER. The thread that drops its last reference waits, unless its peer goes before.
 * Threads: any. Memory: none.
 */
#pragma once

#include "tests/support/tcp_pair.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The connection's end that lingers; *peer: the other one. Aborts where there is no loopback. */
static inline int lingering_make(int *peer)
{
    static const char bytes[65536];
    int fds[2];
    tcp_pair(fds);
    int fd = fds[0];
    *peer = fds[1];
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    struct linger linger = {.l_onoff = 1, .l_linger = 60};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    return fd;
}

static inline void *lingering_close(void *fd)
{
    (void)close((int)(intptr_t)fd);
    return NULL;
}

/* Sends `len` bytes to a Unix socket together with such an end, which nobody else has then. */
static inline void lingering_pass_bytes(int to, const void *bytes, size_t len, int *peer)
{
    int fd = lingering_make(peer);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    if (sendmsg(to, &message, MSG_NOSIGNAL) < 0) {
        struct linger none = {.l_onoff = 0}; /* Refused: it is ours to close, and soon. */
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    }
    /* The other side may have dropped it by now: then the last reference is ours, and so the wait.
     */
    pthread_t closer;
    if (pthread_create(&closer, NULL, lingering_close, (void *)(intptr_t)fd) != 0 ||
        pthread_detach(closer) != 0) {
        abort();
    }
}

static inline void lingering_pass(int to, const char *text, int *peer)
{
    lingering_pass_bytes(to, text, strlen(text), peer);
}
