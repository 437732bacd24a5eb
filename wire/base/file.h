/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files, as those of /proc and /sys, of this machine or of one made of folders; and writing
 * that lasts. root is "" or, in tests, such a folder; path begins with a slash there.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The first line without its end, as far as out has room. False: there is none, and the bytes
 * in out mean nothing. */
bool amb_file_line(const char *root, const char *path, char *out, size_t size);
/* access(2) by the real user; mode as there. */
bool amb_file_may(const char *root, const char *path, int mode);

/* All bytes, whatever signals come. False: errno has the reason. */
bool amb_file_write(int fd, const void *bytes, size_t len);
/* The names in the folder of that file last from here on. False: errno has the reason. */
bool amb_file_sync_folder(const char *path);
