/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of a TCP connection over loopback.
 * Threads: any. Memory: none.
 */
#pragma once

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* fds[0] has connected, fds[1] was accepted. Aborts where there is no loopback. */
static inline void tcp_pair(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = (struct sockaddr *)(void *)&address;
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || fds[0] < 0 || bind(listener, any, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, any, &len) != 0 || connect(fds[0], any, len) != 0 ||
        (fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        abort();
    }
    (void)close(listener);
}
