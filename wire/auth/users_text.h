/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a users file, for those who change a line of it. All other lines stay as they are,
 * byte by byte: comments, their order, and the ends of lines.
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "wire/auth/user_line.h"
#include "wire/base/status.h"

#include <stddef.h>

#define AMB_USERS_TEXT_WHY_MAX 512u /* any reason fits */
#define AMB_USERS_TEXT_MAX ((size_t)64 << 20)

/* A line of the text, without its end. */
struct amb_users_place {
    unsigned number; /* from 1; 0: there is none */
    size_t at, len;
};

/*
 * Reads all lines, and finds that user's. name NULL: nobody's. Where nobody has the name,
 * the place's number is 0. EINVAL: `why` has "FILE:LINE: reason". A line may be wrong, or have a
 * name or a credential that another one has. ENOMEM, the same.
 */
AMB_MUST_CHECK enum amb_status amb_users_text_find(const char *text, size_t len, const char *path,
                                                   const char *name, struct amb_users_place *out,
                                                   char why[AMB_USERS_TEXT_WHY_MAX]);
/* Calls fn with each user's line, in their order, until it returns false. The same errors. */
AMB_MUST_CHECK enum amb_status amb_users_text_each(const char *text, size_t len, const char *path,
                                                   bool (*fn)(const struct amb_user_line *line,
                                                              const struct amb_users_place *place,
                                                              void *arg),
                                                   void *arg, char why[AMB_USERS_TEXT_WHY_MAX]);
/* The text with `line` at that place, or at its end where the place's number is 0. line NULL: the
 * line of the place goes. The result has a NUL behind its *out_len bytes and is freed by the
 * caller. NULL: no memory. */
char *amb_users_text_put(const char *text, size_t len, const struct amb_users_place *place,
                         const char *line, size_t *out_len);
