/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A young file: it is written beside a name, and takes the name once it lies on the disk. So
 * readers find the former file or all of the new one, and a full disk or a power cut leaves the
 * former.
 *
 *   begin ─► fd: a new file of another name ─┬─► take: its owner, its mode, the name
 *                                            └─► drop: it goes
 *
 * No link is followed: one that has the name gives it up. A program that is killed meanwhile leaves
 * the file of the other name, ".NAME.new". The next young file of that name clears it. While a
 * program has its lock there, others write to ".NAME.NUMBER".
 * Threads: any, each with a young file of its own. Memory: the caller's.
 */
#pragma once

#include "wire/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stat;

struct amb_young {
    int fd;                /* to write to; -1: there is none */
    char path[PATH_MAX];   /* the name that it takes */
    char beside[PATH_MAX]; /* its own until then */
};

struct amb_young_end {
    mode_t mode;               /* of the file; 0: as it was made */
    const struct stat *former; /* has the owner and group that it gets; NULL: it stays ours */
    bool leaves_others;        /* a file that has the name stays: EEXIST */
};

/* mode is for open(2), which heeds the umask. False: errno has the reason, and there is no file. */
AMB_MUST_CHECK bool amb_young_begin(struct amb_young *young, const char *path, mode_t mode);
/* False: errno has the reason, and there is no young file any more. */
AMB_MUST_CHECK bool amb_young_take(struct amb_young *young, const struct amb_young_end *end);
/* Keeps errno. Harmless twice, and after a take. */
void amb_young_drop(struct amb_young *young);
/* A file as a whole: begin, these bytes, take. */
AMB_MUST_CHECK bool amb_young_write(const char *path, const void *bytes, size_t len, mode_t mode,
                                    const struct amb_young_end *end);
