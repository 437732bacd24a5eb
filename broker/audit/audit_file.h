/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of lines that only grows. A line is in it as a whole or not at all. Where the disk is full
 * in the middle of one, the file is cut at that line's beginning.
 *
 * Threads: one at a time. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define AMB_AUDIT_WHY_MAX 384u /* any reason fits */

struct amb_audit_file {
    int fd;       /* -1: none */
    bool is_torn; /* half a line is at its end, and could not be cut off */
};

/* Appends to the file, which is made with mode 0600 where it is not there. It has to be a regular
 * file of root's or of this process's user that nobody else may write to. EINVAL: `why` has a
 * sentence with the path, and *out is untouched. */
AMB_MUST_CHECK enum amb_status amb_audit_file_open(const char *path, struct amb_audit_file *out,
                                                   char why[AMB_AUDIT_WHY_MAX]);
/* line: with its end. is_lasting: it is on the disk when this returns. Waits for the disk. 0, or
 * errno: then the file is as it was. */
int amb_audit_file_append(struct amb_audit_file *file, const char *line, size_t len,
                          bool is_lasting);
/* Harmless twice. */
void amb_audit_file_close(struct amb_audit_file *file);
