/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process at the other end of a Unix connection, as a pidfd of our own. It is the kernel's
 * word, and an open file that no client has.
 *
 * Since Linux 6.5 the kernel gives one for a connection (SO_PEERPIDFD), in whatever PID namespace
 * its process is. Before that there is the number of SO_PEERCRED, which is 0 where we do not see
 * into that namespace. Only then a client is asked to pass a pidfd of itself.
 *
 * A connection remembers its process beyond the end of that. So the pidfd is kept no sooner than
 * the connection ends, and costs no descriptor until then. A process that has handed its connection
 * to another one and is gone says nothing of that one. So it has to live when a session begins.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Does this kernel know SO_PEERPIDFD? */
bool amb_peer_kernel_tells(void);
/* A pidfd, the caller's; -1: it cannot be had, and errno says why. ESRCH: that process is gone.
 * pid: of SO_PEERCRED, 0: none. */
int amb_peer_pidfd(int connection, pid_t pid);
enum amb_peer_state {
    AMB_PEER_LIVES,
    AMB_PEER_GONE,
    AMB_PEER_UNKNOWN, /* it cannot be asked now, as without a free descriptor */
};
/* Where the kernel tells: of the process that connected. No descriptor is left. */
enum amb_peer_state amb_peer_state(int connection);
/* Where the kernel tells: the pidfd of the process that connected, also from a connection that is
 * shut down. False: it cannot be had now. True, and *pidfd is -1: that process is gone. */
bool amb_peer_process(int connection, int *pidfd);
/* Of a descriptor that somebody passed. Asks in a way that reaches no file system and takes no lock
 * that a client could hold. */
bool amb_peer_is_pidfd(int fd);
