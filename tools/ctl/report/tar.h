/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar archive on a stream: regular files of mode 0600, in the form of POSIX.1-1988 (ustar), which
 * each tar reads. All owners are 0 and without a name.
 *
 *   header, 512 bytes │ the file, filled up to 512 │ ... │ two empty blocks
 *
 * Threads: one. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AMB_TAR_NAME_MAX 99u /* bytes of a name */

struct amb_tar {
    FILE *out;
    int64_t time_s; /* of each file, since 1970 */
    bool has_failed;
};

/* A file. The name is relative and of at most AMB_TAR_NAME_MAX bytes. False: it cannot be written,
 * or its name or its size have no room in the form; the archive is none then. */
bool amb_tar_put(struct amb_tar *tar, const char *name, const void *bytes, size_t len);
/* The end of the archive; the stream stays the caller's. False: something could not be written. */
bool amb_tar_end(struct amb_tar *tar);
