/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a peer passes on a Unix socket, where nobody asked for one.
 *
 * A passed file whose last reference is ours is closed in our thread, wherever it is dropped: by a
 * read that has no room for it, by the close of a connection that it still waits in. That may take
 * as long as its sender likes (SO_LINGER with a full send queue). So a read looks first, and takes
 * no byte that a descriptor comes with; such a connection is closed where nobody waits.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct iovec;

/* Once, before anything is read: a byte out of band would take its descriptors past every look. */
void amb_passed_prepare(int fd);
/*
 * As recvmsg without waiting, on a Unix stream socket. *has_passed: the bytes that would come next
 * have descriptors with them; nothing was taken. iov is changed.
 */
ssize_t amb_passed_receive(int fd, struct iovec *iov, size_t count, bool *has_passed);
/* Throws away what a connection that was shut down still has to be read, up to the first byte that
 * a descriptor comes with. True: there is one, and close() may take any time. */
bool amb_passed_is_left(int fd);
