/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of shared memory, brought before they are written. One that cannot be had is an error here,
 * and a SIGBUS at a write.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <stddef.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* As madvise: 0, or -1 and errno. EINVAL: this system does not know the call, and brings pages as
 * they are written. ENOMEM, EFAULT: there is no memory. */
static inline int amb_pages_bring(void *at, size_t bytes)
{
    return madvise(at, bytes, MADV_POPULATE_WRITE);
}
