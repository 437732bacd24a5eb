/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a peer passes on a Unix socket, where nobody asked for one.
 *
 * A passed file whose last reference is ours is closed in our thread, wherever the reference is
 * dropped. A read without room for the file drops it, and so does the close of a connection in
 * which it still waits. That may take as long as the sender likes (SO_LINGER with a full send
 * queue). So a read looks first, and takes no byte that a descriptor comes with. Such a connection
 * is closed by a thread that nobody waits for.
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
/* Throws away the unread bytes of a connection that was shut down, up to the first byte that a
 * descriptor comes with. True: there is one, and close() may take any time. */
bool amb_passed_is_left(int fd);
