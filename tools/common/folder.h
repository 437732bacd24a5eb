/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder for the time of a run: sockets and logs of a private broker.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_FOLDER_MAX 96u /* so that a Unix socket in it has a name that fits */

/* A new one, for this user alone, below $TMPDIR, else (or where that is long) below /tmp. False:
 * errno has the reason, and out the path that was tried. `name` begins its name. */
bool amb_folder_make(const char *name, char out[AMB_FOLDER_MAX]);
/* With the files in it, but not with folders in it. An empty path is none. */
void amb_folder_remove(const char *path);
