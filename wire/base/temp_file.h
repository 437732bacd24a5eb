/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary file that replaces another one: it is written in the same folder, and gets the name
 * once it lies on the disk. So readers find the former file or all of the new one, and a full disk
 * or a power cut leaves the former.
 *
 *   create ─► fd: a new file of another name ─┬─► rename: its owner, its mode, the name
 *                                             └─► drop: it goes
 *
 * No link is followed: a link that has the name is replaced itself. A program that is killed
 * meanwhile leaves its temporary file, ".NAME.new". The next one for that name clears it. While a
 * program has its lock there, others write to ".NAME.NUMBER".
 * Threads: any, each with a file of its own. Blocks for the disk. Memory: the caller's.
 */
#pragma once

#include "wire/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stat;

struct amb_temp_file {
    int fd;                /* to write to; -1: there is none */
    char path[PATH_MAX];   /* the name that it gets */
    char beside[PATH_MAX]; /* its own until then */
};

struct amb_temp_file_end {
    mode_t mode;               /* of the file; 0: as it was made */
    const struct stat *former; /* has the owner and group that it gets; NULL: it stays ours */
    bool leaves_others;        /* a file that has the name stays: EEXIST */
};

/* mode is for open(2), which heeds the umask. False: errno has the reason, and there is no file. */
AMB_MUST_CHECK bool amb_temp_file_create(struct amb_temp_file *temp, const char *path, mode_t mode);
/* It gets its name. False: errno has the reason, and the temporary file is gone. */
AMB_MUST_CHECK bool amb_temp_file_rename(struct amb_temp_file *temp,
                                         const struct amb_temp_file_end *end);
/* It goes. Keeps errno. Harmless twice, and after a rename. */
void amb_temp_file_drop(struct amb_temp_file *temp);
/* All in one: create, these bytes, rename. */
AMB_MUST_CHECK bool amb_temp_file_replace(const char *path, const void *bytes, size_t len,
                                          mode_t mode, const struct amb_temp_file_end *end);
