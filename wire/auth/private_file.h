/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that say who may come in, and files of secrets. Nobody but their owner may read or write
 * them, and that is root or the user of this process.
 *
 * Threads: any. Memory: the caller's, by amb_private_file_free.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_PRIVATE_WHY_MAX 384u /* any reason fits */

struct stat;

struct amb_private_file {
    char *text; /* len bytes and a NUL */
    size_t len;
    int64_t modified_ns; /* since 1970: when it was last written, as it was read */
};

/*
 * Reads all of a regular file of at most `max` bytes. It waits for the disk, and for nothing else.
 * EINVAL: `why` has "PATH can be read by others (got mode 0640, allowed 0600 or stricter)", or
 * another sentence that begins with the path. ENOMEM, the same.
 */
AMB_MUST_CHECK enum amb_status amb_private_file_read(const char *path, size_t max,
                                                     struct amb_private_file *out,
                                                     char why[AMB_PRIVATE_WHY_MAX]);
/* The same. is_any_owner: it may be anybody's, and still not be read by others. */
AMB_MUST_CHECK enum amb_status amb_private_file_read_any(const char *path, size_t max,
                                                         bool is_any_owner,
                                                         struct amb_private_file *out,
                                                         char why[AMB_PRIVATE_WHY_MAX]);
/* Is it its owner's alone, and he root or us? False, with the reason. */
bool amb_private_file_check(const char *path, const struct stat *st, char why[AMB_PRIVATE_WHY_MAX]);
/* Overwrites the bytes, then frees them. Harmless twice, and on zeros. */
void amb_private_file_free(struct amb_private_file *file);
/* The same of a text that ends with a NUL: a secret does not stay in the heap. NULL is allowed. */
void amb_private_text_free(char *text);
/* Makes a file of mode 0600, which lasts when this returns. A file that is there is left alone.
 * EINVAL with its reason, as above. */
AMB_MUST_CHECK enum amb_status amb_private_file_create(const char *path, const char *text,
                                                       char why[AMB_PRIVATE_WHY_MAX]);
/* The same of a file that others may read, of mode 0644. */
AMB_MUST_CHECK enum amb_status amb_public_file_create(const char *path, const char *text,
                                                      char why[AMB_PRIVATE_WHY_MAX]);
