/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files, as those of /proc and /sys, of this machine or of one made of folders. root is ""
 * or, in tests, such a folder; path begins with a slash. Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The first line without its end, as far as out has room. False: there is none, and the bytes
 * in out mean nothing. */
bool amb_file_line(const char *root, const char *path, char *out, size_t size);
/* access(2) by the real user; mode as there. */
bool amb_file_may(const char *root, const char *path, int mode);
