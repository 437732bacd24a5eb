/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/passed.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PASSED_PIECE 16384u
/* More than any send buffer holds. A queue that has not ended by then is said to have one. */
#define PASSED_PIECES_MAX 4096u

void amb_passed_prepare(int fd)
{
    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int));
}

/* Leaves the first `bytes` of it. */
static size_t iov_cut(struct iovec *iov, size_t count, size_t bytes)
{
    size_t used = 0;
    while (used < count && bytes > 0) {
        if (iov[used].iov_len > bytes) {
            iov[used].iov_len = bytes;
        }
        bytes -= iov[used++].iov_len;
    }
    return used;
}

ssize_t amb_passed_receive(int fd, struct iovec *iov, size_t count, bool *has_passed)
{
    *has_passed = false;
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t got = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
    if (got <= 0) {
        return got;
    }
    /* Without room for it, descriptors are a control message that was cut. */
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        *has_passed = true;
        return got;
    }
    /* Not a byte more: bytes that have come meanwhile were not looked at. */
    struct msghdr looked_at = {.msg_iov = iov, .msg_iovlen = iov_cut(iov, count, (size_t)got)};
    return recvmsg(fd, &looked_at, MSG_DONTWAIT);
}

bool amb_passed_is_left(int fd)
{
    uint8_t bytes[PASSED_PIECE];
    for (unsigned i = 0; i < PASSED_PIECES_MAX; i++) {
        struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
        bool has_passed;
        ssize_t got = amb_passed_receive(fd, &iov, 1, &has_passed);
        if (has_passed) {
            return true;
        }
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
    }
    return true;
}
