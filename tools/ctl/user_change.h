/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of a user's line in a users file, as options say it.
 * Threads: any. Memory: points into the options; results are the caller's.
 */
#pragma once

#include "wire/auth/user_line.h"

#include <stdbool.h>

#define AMB_USER_CHANGE_WHY_MAX (AMB_USER_LINE_WHY_MAX + 64u)
#define AMB_USER_CHANGE_TENANT "default" /* of a new user */

/* Zero-initialised: changes nothing. */
struct amb_user_change {
    const char *tenant;                    /* NULL: as it is */
    const char *quota;                     /* the same; "-": none */
    const char *until;                     /* a day; "never" */
    const char *roles[AMB_USER_ROLES_MAX]; /* all that it then has; "-" alone: none */
    unsigned role_count;                   /* 0: as they are */
    const char *added[AMB_USER_CREDENTIALS_MAX], *removed[AMB_USER_CREDENTIALS_MAX];
    unsigned added_count, removed_count;
    bool has_off, is_off;
};

/* One more of each. False: they are too many, which has been said. */
bool amb_user_change_role(struct amb_user_change *change, const char *role);
bool amb_user_change_add(struct amb_user_change *change, const char *credential);
bool amb_user_change_remove(struct amb_user_change *change, const char *credential);
bool amb_user_change_is_empty(const struct amb_user_change *change);

/*
 * The line as it will be, of AMB_USER_LINE_MAX + 1 bytes.
 *   before      the user's line, which is written to; NULL: the user is new
 *   credential  one more, or NULL
 * False: `why` has a sentence.
 */
bool amb_user_change_apply(const struct amb_user_change *change, const char *name,
                           const char *credential, char *before, char *out,
                           char why[AMB_USER_CHANGE_WHY_MAX]);

/* For people: "key,uid/1000": a credential that can be long by its kind. `out` has
 * AMB_USER_LINE_MAX + 1 bytes. */
void amb_user_change_kinds(const struct amb_user_line *line, char *out);
