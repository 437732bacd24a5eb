/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that a preloaded library shares with a test, through a file that the test has made.
 *
 * Threads: any. Memory: a mapping that stays until the process ends.
 */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The file whose path that environment variable has; `otherwise` if there is none. */
static inline void *map_named(const char *variable, size_t size, void *otherwise)
{
    const char *path = getenv(variable);
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return otherwise;
    }
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return map != MAP_FAILED ? map : otherwise;
}
