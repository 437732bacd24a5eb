/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A users file that is changed by a program. The program that holds it open has the lock, and no
 * other one changes it meanwhile. The new text is another file, which takes the old one's name when
 * all of it is on the disk. So a reader sees the old text or the new one, whenever this process
 * ends.
 *
 *   open (lock, read) ─► replace (as a whole: wire/base/temp_file.h) ─► close
 *
 * The lock is flock's, on the file itself: only those who may read it can hold it.
 *
 * Threads: any; open blocks for the lock. Memory: the caller's, by close.
 */
#pragma once

#include "wire/auth/users_text.h"
#include "wire/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum amb_users_file_how {
    AMB_USERS_FILE_READ, /* without a lock; it cannot be replaced */
    AMB_USERS_FILE_EDIT,
    AMB_USERS_FILE_MAKE, /* the same, and it is made where it is not there */
};

/* Zero-initialised. */
struct amb_users_file {
    char *path; /* without symbolic links */
    char *text; /* len bytes and a NUL */
    size_t len;
    int fd; /* that has the lock; 0: none */
    struct stat st;
};

/*
 * EINVAL: `why` has a sentence with the path. The file is not there, is another user's (root may
 * take anybody's), or others may read it. EBUSY: another one has the lock for longer than
 * timeout_ns. ENOMEM.
 */
AMB_MUST_CHECK enum amb_status amb_users_file_open(const char *path, enum amb_users_file_how how,
                                                   int64_t timeout_ns, struct amb_users_file *out,
                                                   char why[AMB_USERS_TEXT_WHY_MAX]);
/* With the same owner and mode. EINVAL: nothing has changed, and `why` has a sentence. */
AMB_MUST_CHECK enum amb_status amb_users_file_replace(struct amb_users_file *file, const char *text,
                                                      size_t len, char why[AMB_USERS_TEXT_WHY_MAX]);
/* Gives up the lock. Harmless twice, and on zeros. */
void amb_users_file_close(struct amb_users_file *file);
