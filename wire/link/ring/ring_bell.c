/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/ring/ring_bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define BELL_BEGIN (UINT64_C(1) << 62) /* far from both ends */

static bool take_one(int bell)
{
    uint64_t one;
    struct iovec room = {.iov_base = &one, .iov_len = sizeof(one)};
    return preadv2(bell, &room, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof(one);
}

enum amb_status ring_bell_make(struct ring *ring, int *copy)
{
    const uint64_t begin = BELL_BEGIN;
    ring->bell = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
    if (ring->bell < 0) {
        return amb_status_from_errno(errno);
    }
    if (write(ring->bell, &begin, sizeof(begin)) != (ssize_t)sizeof(begin) ||
        !take_one(ring->bell)) {
        return AMB_ENOTSUP;
    }
    *copy = fcntl(ring->bell, F_DUPFD_CLOEXEC, 0);
    return *copy < 0 ? amb_status_from_errno(errno) : AMB_OK;
}

void ring_bell_ring(const struct ring *ring)
{
    static const uint64_t one = 1;
    if (ring->is_broker) {
        (void)take_one(ring->bell);
    } else {
        (void)!write(ring->bell, &one, sizeof(one));
    }
}
